// Shows a peer's status as a table in the terminal.
#pragma once

#include <string>

namespace gv {

/// Formats the JSON status document from a peer's socket. The table lists the peer's state, members
/// and last refusals.
std::string status_table(const std::string& document);

}  // namespace gv
