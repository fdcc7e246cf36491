// Turns arguments into the options with which a peer begins a swarm with certificates, or joins one
// with a ticket.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/problems.hpp"
#include "peer/host/host.hpp"
#include "peer/host/peer_arguments.hpp"

namespace gv {

/// The arguments of a user who begins or joins a swarm.
struct SwarmArguments {
  HostOptions host;
  /// The run folder; if empty, the one in the config, or else "grapevine-NAME".
  std::string folder;
  std::string data;           ///< The folder of the data; if empty, the one in the config.
  TicketTerms terms;          ///< The terms of the ticket that a first peer prints.
  bool has_own_data = false;  ///< True if the program provides the model and the data.
  /// Called with a sentence for the user each time the inviting peer does not answer. We then ask
  /// again until the ticket expires, unless this function throws. If the function is empty, we ask
  /// only once.
  std::function<void(const std::string& sentence)> inviter_is_silent;
};

/// Formats the time of a ticket, a certificate or a clock for people.
std::string time_text(std::uint64_t at_s);

/// Returns a warning, as a sentence without a full stop, if the peer with this certificate's number
/// trains on the same shard as another peer. Empty if the peer has its own shard, or if the data
/// are not cut into shards.
std::string shared_shard(const Config& config, std::uint32_t number);

/// True if an earlier run left a checkpoint in the peer's folder, even if the keys there have been
/// replaced since.
bool has_checkpoints(const std::filesystem::path& folder);

/// Prepares a new swarm: reads the config, and makes the keys of the swarm and of its first peer.
/// If the run folder has keys from an earlier start, reads those instead.
Problems prepare_to_create(const SwarmArguments& arguments, HostOptions& options,
                           const ReadConfig& read = read_config);

/// Asks the peer that made the ticket to admit us, and reads the config in that peer's answer. If
/// the run folder has certificates from an earlier start, uses those instead. The config comes from
/// another peer, so it may only name files in the run folder, below /usr/share or below
/// `arguments.data`.
Problems prepare_to_join(const SwarmArguments& arguments, const std::string& ticket,
                         HostOptions& options, const ReadConfig& read = read_config);

/// Lists the settings of another peer's config that name files which this machine must not read.
Problems problems_of_places(const Config& config, const std::filesystem::path& own_folder,
                            const std::string& data);

/// A command to a running peer, sent to its socket.
struct SwarmCommand {
  std::optional<TicketTerms> invite;
  std::string revoke;  ///< The name of a peer to revoke; empty if none.
  bool with_invited = false;
};

std::string swarm_command_text(const SwarmCommand& command);
/// A running peer's answer to a command that asks for a ticket.
struct InviteAnswer {
  std::string ticket;  ///< The ticket; empty if there is none.
  std::string
      problem;  ///< Why there is no ticket; empty if there is one, or if the text cannot be read.
};
InviteAnswer read_invite_answer(const std::string& text);

/// Parses a command. Returns an empty command if the text is damaged or is another kind of command.
SwarmCommand read_swarm_command(const std::string& text);

}  // namespace gv
