// The places of settings in a config's text, for problems that are found after reading.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "base/problems.hpp"

namespace gv {

struct ConfigPlaces {
  std::string name;  ///< Name of the text; empty if there is no text.
  /// Line numbers of keys, sections and layers in the text.
  std::map<std::string, std::size_t> lines;

  /// Returns the name, the line and `place`, if `place` is a setting, a layer or a section. The
  /// line is that of the key; if the text lacks the key, that of the section or layer around it;
  /// otherwise 1. Returns any other place, such as a data file, unchanged.
  std::string place_of(const std::string& place) const;

  /// Returns the problems, each with its place replaced by place_of().
  Problems placed(Problems problems) const;
};

}  // namespace gv
