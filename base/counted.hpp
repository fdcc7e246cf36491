// Formats a count together with its noun in the singular or the plural.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gv {

/// Returns a count and its noun as text, for example "1 error" or "2 errors". Only for nouns that
/// take an s in the plural.
inline std::string counted(std::size_t number, std::string_view thing) {
  return std::to_string(number) + " " + std::string(thing) + (number == 1 ? "" : "s");
}

}  // namespace gv
