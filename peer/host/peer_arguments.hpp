// Turns a person's arguments for one peer into the options of its host.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/problems.hpp"
#include "peer/config/config.hpp"
#include "peer/host/host.hpp"

namespace gv {

/// The arguments of a peer: the host's options, and arguments that must be parsed before they
/// become options.
struct PeerArguments {
  HostOptions host;
  std::string key = "key";
  std::string authorized = "authorized_peers";
  /// File with a cohort's secret, which replaces key and allow-list; empty if none.
  std::string cohort;
  std::optional<std::size_t> rank;   ///< Rank in the cohort; if unset, from the environment.
  std::optional<std::size_t> ranks;  ///< Number of ranks; if unset, from the environment.
  std::string rendezvous;  ///< Folder for addresses; if empty, it is beside the cohort's file.
  std::string folder;
  std::string lane;  ///< Overrides the config's kind of lanes, unless empty.
  /// "K/N"; if empty, derived from the place in the allow-list or from the rank.
  std::string shard;
};

/// Returns the command line of `grapevine peer` for these arguments.
std::vector<std::string> command_line(const PeerArguments& arguments);

/// Returns the error for a name that is not a kind of lane.
Problem no_lane(const std::string& name);

/// True for "HOST:PORT" with a port from 0 to 65535. Port 0 means any free port.
bool is_listen_address(const std::string& text);

/// Lists the problems of the given addresses. Addresses are never guessed.
Problems address_problems(const std::string& listen, const std::string& advertise,
                          const std::vector<std::string>& join);

/// Reads the config file at `path`. An empty path means the built-in config.
ParsedConfig read_config(const std::string& path, const ConfigOverrides& overrides);
using ReadConfig =
    std::function<ParsedConfig(const std::string& path, const ConfigOverrides& overrides)>;

/// Reads the files that the arguments name, fills in omitted arguments, and returns all problems.
/// `options` starts as a copy of `arguments.host`.
Problems prepare(const PeerArguments& arguments, HostOptions& options,
                 const ReadConfig& read = read_config);

}  // namespace gv
