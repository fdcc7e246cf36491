// The names of an enumeration's values, defined once for conversion in both directions.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace gv {

/// The names of all values of an enumeration, in order. The values must count from 0.
template <class Kind, std::size_t count>
struct Names {
  std::array<std::string_view, count> list;

  constexpr std::string_view operator[](Kind kind) const {
    const auto place = static_cast<std::size_t>(kind);
    return place < count ? list[place] : "unknown";
  }

  /// The value with this name; nullopt if there is none.
  constexpr std::optional<Kind> find(std::string_view name) const {
    const auto* found = std::ranges::find(list, name);
    if (found == list.end()) return std::nullopt;
    return static_cast<Kind>(found - list.begin());
  }

  /// All values of the enumeration, in order.
  constexpr std::array<Kind, count> kinds() const {
    std::array<Kind, count> all{};
    for (std::size_t place = 0; place < count; ++place) all[place] = static_cast<Kind>(place);
    return all;
  }
};

template <class Kind, std::size_t count>
constexpr Names<Kind, count> names_of(const std::string_view (&list)[count]) {
  return {std::to_array(list)};
}

}  // namespace gv
