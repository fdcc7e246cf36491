// The places of settings in a config's text, for problems that are found after reading.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "base/problems.hpp"

namespace gv {

struct ConfigPlaces {
  std::string name;                          ///< Name of the text. Empty: there is no text.
  std::map<std::string, std::size_t> lines;  ///< Line numbers of keys, sections and layers.

  /// Returns the name, the line and `place`, if `place` is a setting, a layer or a section. The
  /// line is that of the key, otherwise of what contains it, otherwise 1. Any other place, such as
  /// a data file, is returned unchanged.
  std::string place_of(const std::string& place) const;

  /// Returns the problems, each with its place replaced by place_of().
  Problems placed(Problems problems) const;
};

}  // namespace gv
