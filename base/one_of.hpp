// Helps to compile a variant of many types only once: a struct derives from the variant, and only
// the struct's .cpp makes, copies and destroys it.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>
#include <variant>

namespace gv {

template <class T, class Variant>
struct OneOf : std::false_type {};
template <class T, class... Alternatives>
struct OneOf<T, std::variant<Alternatives...>>
    : std::bool_constant<(std::is_same_v<T, Alternatives> || ...)> {
  /// The index of `T` among the alternatives.
  static constexpr std::size_t index() {
    std::size_t found = 0;
    static_cast<void>(((std::is_same_v<T, Alternatives> || (++found, false)) || ...));
    return found;
  }
};

/// True if `T` is one of the alternatives.
template <class T, class Variant>
concept IsOneOf = OneOf<T, Variant>::value;

/// Moves the object at `value` into a new variant. `index` is the place of the object's type among
/// the alternatives.
template <class Variant, std::size_t Index = 0>
Variant variant_from(std::size_t index, void* value) {
  if constexpr (Index + 1 < std::variant_size_v<Variant>) {
    if (index != Index) return variant_from<Variant, Index + 1>(index, value);
  }
  using T = std::variant_alternative_t<Index, Variant>;
  return Variant(std::in_place_index<Index>, std::move(*static_cast<T*>(value)));
}

}  // namespace gv
