// The mode of a running swarm after a switch, and its options.
#pragma once

#include <string>
#include <string_view>

#include "base/problems.hpp"
#include "peer/config/config.hpp"

namespace gv {

/// A config after a switch of the mode.
struct SwitchedConfig {
  Config config;      ///< The config with the new mode. Everything else is as before.
  Problems problems;  ///< Why the swarm cannot use these settings; empty if it can.
};

/// Returns the config after a switch of the mode. `settings` contains config lines for run.mode or
/// run.algorithm, and for keys of that mode's section, for example `allreduce.algorithm = "ring"`.
/// Everything else stays as it is, and is checked against the new mode, as at the start of a run.
/// Settings that protect peers from hostile ones always stay. `has_buffers` is true if the model is
/// a program's own and has buffers that are averaged.
SwitchedConfig switched_config(const Config& running, std::string_view settings,
                               bool has_buffers = false);

/// True for a setting that protects a peer from hostile ones: the caps and clips of gossip, and the
/// guard of mixing if the running config has one. No switch can change such a setting, because any
/// member can switch.
bool protects(const Config& running, std::string_view path);

/// Lists the settings that protect peers and would differ after the switch from `running` to
/// `next`.
Problems problems_of_defences(const Config& running, const Config& next);

/// Returns the text of settings that only name this mode or algorithm.
std::string settings_of(std::string_view mode_or_algorithm);

/// Returns a number that is equal for all peers whose settings allow them to train together in mode
/// `allreduce`.
std::uint64_t alike_in_step(const Config& config);

}  // namespace gv
