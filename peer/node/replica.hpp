// A peer's part of the model, whole or in stages, and the jobs that change it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/range.hpp"
#include "base/rng.hpp"
#include "consensus/message/snapshot.hpp"
#include "peer/node/job.hpp"
#include "train/learner/learner.hpp"

namespace gv {

/// Makes a job's steps, or its gradient (which counts as one step), by calling `make` once. May
/// take longer than `make` itself.
using StepPace = std::function<void(std::uint64_t steps, const std::function<void()>& make)>;

/// Replaces a pass in measurements whose stages only take time and compute nothing. The pass's
/// gradients then count as computed.
using PassStandIn = std::function<void(const PipelineInstruction&)>;

/// Functions that the owner of a replica may attach to it. Each may be empty.
struct ReplicaHooks {
  /// Called on the job's thread while the job runs, once its gradient is final and encoded from
  /// element `begin` on. A `begin` of 0 may also mean that the messages of the job's round are in
  /// the outbox.
  std::function<void(std::uint64_t job, std::size_t begin)> ready;
  StepPace pace;         ///< Slows steps and gradients down, to imitate a slower machine.
  PassStandIn stand_in;  ///< Replaces passes through stages.
};

/// The content of a checkpoint, for a model or for one of its stages.
struct ReplicaPart {
  std::optional<std::uint32_t> stage;  ///< The stage; empty for the whole model.
  const Layout* layout = nullptr;
  std::span<const float> parameters;
  OptimizerState optimizer;
  std::map<std::string, std::string> notes;  ///< Further state, in the form of text.
};

/// A peer's part of the model: the whole model or some stages. No other code touches live
/// parameters. Not thread-safe except for stop(): while a job runs, its thread owns the replica.
class Replica {
 public:
  virtual ~Replica() = default;

  /// Does the job's tasks in order, except for Save. Sizes must match the layout. A task for the
  /// other kind of replica fails a check.
  virtual JobDone run(Job job) = 0;
  virtual void set_hooks(ReplicaHooks hooks) = 0;
  /// Makes later jobs mix by this rule, in a run with this seed.
  virtual void mix_by(const MixRule& rule, std::uint64_t run_seed) = 0;

  virtual std::uint64_t step() const = 0;
  /// Parameters of a whole model; empty in a pipeline.
  virtual std::span<const float> parameters() const { return {}; }
  /// Parameters of one stage, without slices that this peer lacks; empty if it does not carry the
  /// stage.
  virtual std::span<const float> stage(std::size_t) const { return {}; }
  /// The ranges of the whole stage whose parameters stage() returns.
  virtual std::vector<Range> stage_ranges(std::size_t) const { return {}; }
  /// Parameters of a part of a stage, in the order in which carriers exchange them; empty if we do
  /// not carry it.
  virtual std::vector<float> part(std::uint32_t) const { return {}; }
  /// The conservation checksum; zeros in a pipeline, which has no exchanges.
  virtual ConservationChecksum checksum() const { return {}; }

  /// The content of a checkpoint. The views in the parts are valid until the next job.
  virtual std::vector<ReplicaPart> parts() const = 0;
  /// Restores a part that parts() of a replica with the same layout has returned. If the part does
  /// not fit, returns the reason and changes nothing; otherwise returns an empty string.
  virtual std::string restore(ReplicaPart part) = 0;

  /// The note of the newest FollowSwarm, or of the checkpoint from which the replica has resumed.
  virtual SwarmNote swarm_note() const { return {}; }

  /// Prepares for the next job, which may come at any time.
  virtual void prefetch() {}
  /// Asks training to end soon. May be called from any thread.
  virtual void stop() {}
  /// True if the replica can make no more steps, because its user's loop has ended.
  virtual bool has_ended() const { return false; }
};

/// The conservation checksum with which the replica of this peer starts. Later, the sum of all
/// peers' checksums must equal the sum of these initial ones.
inline ConservationChecksum initial_checksum(std::uint64_t peer) {
  Rng rng = Rng(peer).fork("canary");
  ConservationChecksum checksum;
  for (auto& lane : checksum) lane = static_cast<std::int64_t>(rng.below(1'000'000'000));
  return checksum;
}

}  // namespace gv
