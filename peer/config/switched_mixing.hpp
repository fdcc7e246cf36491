// The mixing options of a running swarm after a settings revision.
#pragma once

#include <string>
#include <string_view>

#include "peer/config/config.hpp"
#include "peer/modes/mixing_options.hpp"

namespace gv {

/// Returns the rule and period after a settings revision. `settings` contains config lines that set
/// `run.algorithm` or keys of `mixing`, for example `mixing.gamma = 0.2`. Other keys of `mixing`
/// get their defaults. If `settings` is empty, returns the rule of the peer's own config, as before
/// the first revision. A swarm may return to that rule when it discards a forged revision.
/// `has_buffers` is as in switched_config().
SwitchedMixing switched_mixing(const Config& running, std::string_view settings,
                               bool has_buffers = false);

/// Returns the text of settings that only name this algorithm.
std::string revision_settings(std::string_view algorithm);

}  // namespace gv
