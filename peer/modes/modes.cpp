// Names the modes, and makes them from their options.
#include "peer/modes/modes.hpp"

#include <array>
#include <utility>

#include "peer/modes/allreduce.hpp"
#include "peer/modes/gossip.hpp"
#include "peer/modes/mixing.hpp"
#include "peer/modes/pipeline.hpp"

namespace gv {
namespace {

template <class M, class... Arguments>
MadeMode made(Arguments&&... arguments) {
  auto mode = std::make_unique<M>(std::forward<Arguments>(arguments)...);
  const M* as = mode.get();
  return {.mode = std::move(mode), .as = as};
}

}  // namespace

std::span<const ModeName> mode_names() {
  static constexpr std::array names = {
      ModeName{ModeKind::gossip, "gossip", "by gossip"},
      ModeName{ModeKind::allreduce, "allreduce", "in lockstep"},
      ModeName{ModeKind::pipeline, "pipeline", "in a pipeline"},
      ModeName{ModeKind::mixing, "mixing", "in rounds"},
  };
  return names;
}

std::uint64_t operation_steps(const NodeOptions& options) {
  switch (options.mode) {
    case ModeKind::gossip:
      return options.gossip.period_steps;
    case ModeKind::allreduce:
      return options.allreduce.local.period;
    case ModeKind::pipeline:
      return options.pipeline.micro_batches;
    case ModeKind::mixing:
      return options.mixing.period;
  }
  return 1;
}

MadeMode make_mode(PeerId self, std::uint64_t session, NodeOptions options, const Signer& signer,
                   const Rng& rng) {
  switch (options.mode) {
    case ModeKind::gossip:
      return made<GossipMode>(self, session, options.course, std::move(options.gossip), signer,
                              rng);
    case ModeKind::allreduce:
      return made<AllReduceMode>(self, session, options.course, options.allreduce, signer, rng);
    case ModeKind::pipeline:
      return made<PipelineMode>(self, session, options.course, options.pipeline, signer, rng);
    case ModeKind::mixing:
      return made<MixingMode>(self, session, options.course, options.mixing, signer, rng);
  }
  return {};
}

}  // namespace gv
