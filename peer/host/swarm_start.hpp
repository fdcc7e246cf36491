// Begins a swarm with certificates, or joins one by a ticket: from a person's arguments to options.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/problems.hpp"
#include "peer/host/host.hpp"
#include "peer/host/peer_arguments.hpp"

namespace gv {

/// The arguments of a person who begins a swarm or joins one.
struct SwarmArguments {
  HostOptions host;
  std::string folder;         ///< The run folder; empty: by the config, or "grapevine-NAME".
  std::string data;           ///< Where the data are; empty: as the config says.
  TicketTerms terms;          ///< Of the ticket that a first peer prints.
  bool has_own_data = false;  ///< The peer is a part of a program, which brings model and data.
};

/// Reads the config and makes the keys of the swarm and of its first peer, or reads those of an
/// earlier start in this folder.
Problems prepare_to_create(const SwarmArguments& arguments, HostOptions& options,
                           const ReadConfig& read = read_config);

/// Asks the ticket's peer to let us in, and reads the config that it gives; if this folder has
/// certificates from an earlier start, it uses those. The config is another peer's: it may name
/// files only in the run folder, below /usr/share and below `arguments.data`.
Problems prepare_to_join(const SwarmArguments& arguments, const std::string& ticket,
                         HostOptions& options, const ReadConfig& read = read_config);

/// Returns which files a config from another peer names that this machine should not read for it.
Problems problems_of_places(const Config& config, const std::filesystem::path& own_folder,
                            const std::string& data);

/// A command for the socket of a running peer.
struct SwarmCommand {
  std::optional<TicketTerms> invite;
  std::string revoke;  ///< A name; empty: nothing to revoke.
  bool with_invited = false;
};

std::string swarm_command_text(const SwarmCommand& command);
/// What a running peer has answered to a command to invite.
struct InviteAnswer {
  std::string ticket;   ///< Empty: there is none.
  std::string problem;  ///< Why there is none; empty if the text is no answer.
};
InviteAnswer read_invite_answer(const std::string& text);

/// Returns an empty command if the text is another command, or damaged.
SwarmCommand read_swarm_command(const std::string& text);

}  // namespace gv
