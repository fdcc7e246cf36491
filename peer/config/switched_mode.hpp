// The mode of a running swarm after a switch, and its options.
#pragma once

#include <string>
#include <string_view>

#include "base/problems.hpp"
#include "peer/config/config.hpp"

namespace gv {

/// A config after a switch.
struct SwitchedConfig {
  Config config;      ///< The config with the new mode; the rest is as before.
  Problems problems;  ///< If there are any, the swarm cannot use these settings.
};

/// The config after a switch of the mode. `settings` are config lines, one on each line: run.mode
/// or run.algorithm, and keys of the section of that mode, for example `allreduce.algorithm =
/// "ring"`. Everything else stays as it is, and is judged with the new mode just as at the start.
/// What protects peers from hostile ones stays in any case.
/// `has_buffers`: the model is a program's own, and has buffers that are averaged.
SwitchedConfig switched_config(const Config& running, std::string_view settings,
                               bool has_buffers = false);

/// True for a setting that protects a peer from hostile ones: the caps and clips of gossip, and the
/// guard of mixing if the running config has one. No switch can change it, since any member can
/// switch.
bool protects(const Config& running, std::string_view path);

/// The settings that protect peers and would differ after the switch from `running` to `next`.
Problems problems_of_defences(const Config& running, const Config& next);

/// The text of settings that only name this mode or algorithm.
std::string settings_of(std::string_view mode_or_algorithm);

/// A number that is equal for peers whose settings allow them to train in lockstep.
std::uint64_t alike_in_step(const Config& config);

}  // namespace gv
