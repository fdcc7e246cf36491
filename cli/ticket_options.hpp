// Options that the ticket commands have in common.
#pragma once

#include <string>

#include "peer/host/swarm_start.hpp"

namespace CLI {
class App;
}

namespace gv {

/// Adds the options of a peer that starts a swarm or joins one. The help of --folder says that it
/// is `folder` by default.
void add_peer_options(CLI::App& command, SwarmArguments& arguments, const std::string& folder);

/// Adds the options for a new ticket's number of uses, its lifetime and its purpose.
void add_ticket_options(CLI::App& command, TicketTerms& terms);

}  // namespace gv
