// A peer's status as a table for the terminal.
#pragma once

#include <string>

namespace gv {

/// Formats the document of a peer's socket: own state, a table of members, the last refusals.
std::string status_table(const std::string& document);

}  // namespace gv
