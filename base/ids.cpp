// Prints identifiers.
#include "base/ids.hpp"

#include <cstdio>

namespace gv {

std::string to_string(PeerId id) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(id));
  return text;
}

}  // namespace gv
