// The mixing options of a running swarm after a settings revision.
#pragma once

#include <string>
#include <string_view>

#include "peer/config/config.hpp"
#include "peer/modes/mixing_options.hpp"

namespace gv {

/// The rule and period after a settings revision. `settings` are config lines that set
/// `run.algorithm` or keys of `mixing`, one on each line, for example `mixing.gamma = 0.2`. Other
/// keys of mixing get their defaults. Without any line the rule is that of the peer's own config,
/// as before the first revision: a swarm may go back to that when a forged revision is given up.
/// `has_buffers` as in switched_config().
SwitchedMixing switched_mixing(const Config& running, std::string_view settings,
                               bool has_buffers = false);

/// The text of settings that only name this algorithm.
std::string revision_settings(std::string_view algorithm);

}  // namespace gv
