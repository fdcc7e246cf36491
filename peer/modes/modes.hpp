// The list of modes: their options and their construction.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "base/rng.hpp"
#include "peer/modes/allreduce_options.hpp"
#include "peer/modes/gossip_options.hpp"
#include "peer/modes/mixing_options.hpp"
#include "peer/modes/mode.hpp"
#include "peer/modes/mode_kind.hpp"
#include "peer/modes/pipeline_options.hpp"

namespace gv {

/// The mode to which a settings revision switches, and its options. The options of mixing follow
/// from MixingOptions::read_revision.
struct SwitchedMode {
  Problems problems;  ///< If there are any, the swarm cannot use these settings.
  ModeKind mode = ModeKind::gossip;
  GossipOptions gossip;
  AllReduceOptions allreduce;
  std::uint64_t steps = 0;  ///< The budget of a peer that has its own.
  double weigh_max = 1;     ///< See SwarmWorkOptions.
};

/// Options of a node. Of the modes' options only those of `mode` are used until a switch.
struct NodeOptions {
  Membership::Options membership;
  ModeKind mode = ModeKind::gossip;
  CourseOptions course;
  GossipOptions gossip;
  AllReduceOptions allreduce;
  PipelineOptions pipeline;
  MixingOptions mixing;
  /// Reads the settings of a switch. Empty: the mode is never switched.
  std::function<SwitchedMode(std::string_view settings)> read_switch;
  SettingsRevision revision;  ///< The revision of a resumed peer.
  /// Equal at peers whose settings agree as far as lockstep requires.
  std::uint64_t alike = 0;
};

/// Steps of an exchange, a collective or a round; micro-batches of a pipeline's run.
std::uint64_t operation_steps(const NodeOptions& options);

/// `session` distinguishes this process from earlier ones of the same peer. `signer` has the key of
/// `self` and must outlive the mode.
MadeMode make_mode(PeerId self, std::uint64_t session, NodeOptions options, const Signer& signer,
                   const Rng& rng);

}  // namespace gv
