// Makes the options to begin a swarm with certificates, or to join one by a ticket, from arguments.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/problems.hpp"
#include "peer/host/host.hpp"
#include "peer/host/peer_arguments.hpp"

namespace gv {

/// The arguments of a person who begins a swarm or joins one.
struct SwarmArguments {
  HostOptions host;
  std::string folder;         ///< The run folder; empty: from the config, or "grapevine-NAME".
  std::string data;           ///< The folder of the data; empty: from the config.
  TicketTerms terms;          ///< The terms of the ticket that a first peer prints.
  bool has_own_data = false;  ///< True if the peer is a part of a program that brings model and
                              ///< data.
  /// Called each time that the inviting peer has not answered, with a sentence for the user. Then
  /// it is asked again, until the ticket expires; an exception from here ends that. Empty: it is
  /// asked once.
  std::function<void(const std::string& sentence)> inviter_is_silent;
};

/// A time of a ticket, a certificate or a clock, as people read it.
std::string time_text(std::uint64_t at_s);

/// True if an earlier run left a checkpoint in a peer's folder, even if its keys were replaced
/// since.
bool has_checkpoints(const std::filesystem::path& folder);

/// Reads the config and makes the keys of the swarm and of its first peer, or reads those of an
/// earlier start in this folder.
Problems prepare_to_create(const SwarmArguments& arguments, HostOptions& options,
                           const ReadConfig& read = read_config);

/// Asks the ticket's peer to admit us, and reads the config in its answer. If this folder has
/// certificates from an earlier start, uses those instead. The config comes from another peer, so
/// it may name files only in the run folder, below /usr/share and below `arguments.data`.
Problems prepare_to_join(const SwarmArguments& arguments, const std::string& ticket,
                         HostOptions& options, const ReadConfig& read = read_config);

/// Returns the keys of another peer's config whose files this machine must not read for that peer.
Problems problems_of_places(const Config& config, const std::filesystem::path& own_folder,
                            const std::string& data);

/// A command for the socket of a running peer.
struct SwarmCommand {
  std::optional<TicketTerms> invite;
  std::string revoke;  ///< Name of a peer to revoke; empty: none.
  bool with_invited = false;
};

std::string swarm_command_text(const SwarmCommand& command);
/// A running peer's answer to a command to invite.
struct InviteAnswer {
  std::string ticket;   ///< The ticket; empty: there is none.
  std::string problem;  ///< Why there is no ticket. Empty if the text is not such an answer.
};
InviteAnswer read_invite_answer(const std::string& text);

/// Returns an empty command if the text is another command, or damaged.
SwarmCommand read_swarm_command(const std::string& text);

}  // namespace gv
