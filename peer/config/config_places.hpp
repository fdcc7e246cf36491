// Where a config's text gives its settings, for problems that show only after it was read.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "base/problems.hpp"

namespace gv {

struct ConfigPlaces {
  std::string name;                          ///< Name of the text. Empty: there is none.
  std::map<std::string, std::size_t> lines;  ///< Of its keys ("run.mode"), sections and layers.

  /// The name, the line and `place`, if that is a setting, a layer or a section. The line is that
  /// of the key, else of what it is in, else 1. Any other place, such as a data file, is returned
  /// as it is.
  std::string place_of(const std::string& place) const;

  /// The problems with place_of() their places.
  Problems placed(Problems problems) const;
};

}  // namespace gv
