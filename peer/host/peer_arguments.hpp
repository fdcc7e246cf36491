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

/// The arguments of a peer that need parsing before they become options, and the host's own
/// options.
struct PeerArguments {
  HostOptions host;
  std::string key = "key";
  std::string authorized = "authorized_peers";
  std::string cohort;  ///< File with a cohort's secret, which replaces both; empty: no cohort.
  std::optional<std::size_t> rank;   ///< Rank in the cohort; unset: taken from the environment.
  std::optional<std::size_t> ranks;  ///< Number of ranks; unset: taken from the environment.
  std::string rendezvous;            ///< Folder of addresses; empty: beside the cohort's file.
  std::string folder;
  std::string lane;   ///< Overrides the config's kind of lanes, unless empty.
  std::string shard;  ///< "K/N"; empty: from the place in the allow-list, or the rank.
};

/// The arguments of a command line `grapevine peer` that has these arguments.
std::vector<std::string> command_line(const PeerArguments& arguments);

/// The error for a name that is not a kind of lane.
Problem no_lane(const std::string& name);

/// Lists what is wrong with the given addresses. Addresses are never guessed.
Problems address_problems(const std::string& listen, const std::string& advertise,
                          const std::vector<std::string>& join);

/// Reads the config file at `path`; empty: the built-in config.
ParsedConfig read_config(const std::string& path, const ConfigOverrides& overrides);
using ReadConfig =
    std::function<ParsedConfig(const std::string& path, const ConfigOverrides& overrides)>;

/// Reads the files that the arguments name, fills in omitted arguments, and returns all problems.
/// `options` begins as a copy of `arguments.host`.
Problems prepare(const PeerArguments& arguments, HostOptions& options,
                 const ReadConfig& read = read_config);

}  // namespace gv
