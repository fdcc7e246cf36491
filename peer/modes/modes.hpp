// Lists the modes' options, and constructs modes.
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

/// The mode that a settings revision selects, and its options. For mixing,
/// MixingOptions::read_revision reads the options instead.
struct SwitchedMode {
  Problems problems;  ///< If not empty, the swarm cannot use the settings.
  ModeKind mode = ModeKind::gossip;
  GossipOptions gossip;
  AllReduceOptions allreduce;
  std::uint64_t steps = 0;  ///< The budget in steps, if each peer has its own budget.
  double weigh_max = 1;     ///< See SwarmWorkOptions.
};

/// Options of a node. Until a switch, the node uses only the options of `mode`, and ignores those
/// of other modes.
struct NodeOptions {
  Membership::Options membership;
  ModeKind mode = ModeKind::gossip;
  CourseOptions course;
  GossipOptions gossip;
  AllReduceOptions allreduce;
  PipelineOptions pipeline;
  MixingOptions mixing;
  /// Parses the settings of a switch. If this function is empty, the mode cannot be switched.
  std::function<SwitchedMode(std::string_view settings)> read_switch;
  SettingsRevision revision;  ///< The revision with which a peer resumes.
  /// A number that is equal at two peers if their settings agree as far as lockstep requires.
  std::uint64_t alike = 0;
};

/// Returns the number of local steps for each exchange, collective or round. For a pipeline,
/// returns the number of micro-batches in a run.
std::uint64_t operation_steps(const NodeOptions& options);

/// Makes the mode. `session` distinguishes this process from earlier ones of the same peer.
/// `signer` has the key of `self`, and must outlive the mode.
MadeMode make_mode(PeerId self, std::uint64_t session, NodeOptions options, const Signer& signer,
                   const Rng& rng);

}  // namespace gv
