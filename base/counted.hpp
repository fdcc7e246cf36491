// Writes a number of things with the right ending.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gv {

/// Returns a number of things as text, for example "1 error" or "2 errors". Only for nouns that
/// take an s in the plural.
inline std::string counted(std::size_t number, std::string_view thing) {
  return std::to_string(number) + " " + std::string(thing) + (number == 1 ? "" : "s");
}

}  // namespace gv
