// The list of modes: their options and their construction.
#pragma once

#include <cstdint>
#include <memory>

#include "base/rng.hpp"
#include "peer/modes/allreduce.hpp"
#include "peer/modes/gossip.hpp"
#include "peer/modes/mixing.hpp"
#include "peer/modes/mode_kind.hpp"
#include "peer/modes/pipeline.hpp"

namespace gv {

/// Options of a node. Of the modes' options only those of `mode` count.
struct NodeOptions {
  Membership::Options membership;
  ModeKind mode = ModeKind::gossip;
  CourseOptions course;
  GossipOptions gossip;
  AllReduceOptions allreduce;
  PipelineOptions pipeline;
  MixingOptions mixing;
};

/// Steps of an exchange, a collective or a round; micro-batches of a pipeline's run.
std::uint64_t operation_steps(const NodeOptions& options);

/// `session` tells this process from earlier ones of the same peer. `signer` has the key of `self`
/// and must outlive the mode.
MadeMode make_mode(PeerId self, std::uint64_t session, NodeOptions options, const Signer& signer,
                   const Rng& rng);

}  // namespace gv
