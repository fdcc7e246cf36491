// From a config to the options of a node: the one place where they are put together.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "peer/config/config.hpp"
#include "peer/node/node.hpp"
#include "train/learner/layout.hpp"
#include "train/learner/stage_learner.hpp"

namespace gv {

/// The options of the node. `steps` is this peer's budget; `wait_for` overrides the size of the
/// start barrier when it is larger. A pipeline also needs its `stages`.
NodeOptions node_options(const Config& config, const Layout& layout, std::uint64_t steps,
                         std::size_t wait_for, const StageLearner* stages = nullptr);

/// "host" of "host:port" or "[v6]:port"; empty of an empty address.
std::string host_part(const std::string& address);

}  // namespace gv
