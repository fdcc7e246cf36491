// What becomes of a swarm's rounds when it is told to go by other settings while it runs.
#pragma once

#include <string>
#include <string_view>

#include "peer/config/config.hpp"

namespace gv {

/// What a running swarm's rounds become by a settings revision: lines of a config that set
/// `run.algorithm` or keys of `rounds`, one a line, as `mixing.gamma = 0.2`. What they leave out
/// has its default.
SwitchedMixing switched_mixing(const Config& running, std::string_view settings);

/// The settings that name this algorithm, and nothing else.
std::string revision_settings(std::string_view algorithm);

}  // namespace gv
