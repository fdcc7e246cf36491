// A peer's status as a table for people.
#pragma once

#include <string>

namespace gv {

/// The document of a peer's socket as text: own state, a table of members, the last refusals.
std::string status_table(const std::string& document);

}  // namespace gv
