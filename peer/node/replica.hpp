// One copy of the model and the jobs that change it: the only code that touches live parameters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "consensus/compression/gradient_compressor.hpp"
#include "consensus/compression/outer_step.hpp"
#include "consensus/message/snapshot.hpp"
#include "peer/node/job.hpp"
#include "peer/node/mix_runner.hpp"
#include "train/learner/learner.hpp"

namespace gv {

/// Makes a job's steps or its gradient (which counts as one step) by calling `make` once. It may
/// take longer than they need.
using StepPace = std::function<void(std::uint64_t steps, const std::function<void()>& make)>;

/// A learner, and what consensus keeps beside it: the conservation checksum that follows its
/// parameters through every exchange, the outer step, a mixing rule's memory, a gradient
/// compressor.
class Replica {
 public:
  /// `peer` seeds the conservation checksum, so that every replica starts with different integers.
  /// The hyper-parameters of a learner that can be tuned are part of the state.
  Replica(std::unique_ptr<Learner> learner, std::uint64_t peer, const LocalSteps& local = {});

  /// From here on it mixes with neighbours by that rule, in the run of that seed.
  void mix_by(const MixRule& rule, std::uint64_t run_seed);

  /// For measurements with peers slower than their machine. Empty: full speed.
  void set_pace(StepPace pace) { pace_ = std::move(pace); }

  /// Called while a job runs: the gradient is final and writable from element `begin` on. With 0 it
  /// may also mean that the messages of its round are in the outbox.
  using Ready = std::function<void(std::size_t begin)>;

  /// Runs the whole job but the save. Sizes of forces and models must match the layout.
  JobDone run(Job job, const Ready& ready = {});

  const Learner& learner() const { return *learner_; }
  Learner& learner() { return *learner_; }

  /// Floats of a whole state, as ReplicaState has them.
  std::size_t state_size() const;
  /// What a checkpoint holds beside the parameters, and its inverse, which returns why the state
  /// does not fit, having changed nothing, or an empty string.
  OptimizerState optimizer_state() const;
  std::string restore(std::span<const float> parameters, OptimizerState state);

  const ConservationChecksum& checksum() const { return checksum_; }
  void set_checksum(const ConservationChecksum& checksum) { checksum_ = checksum; }

  /// The conservation checksum as text for a checkpoint, and its inverse, which ignores text of
  /// another form.
  std::string checksum_text() const;
  void restore_checksum(const std::string& text);

 private:
  Score compute(const GradientOrder& order, const Ready& ready, bool& writable);
  void compress_by(const std::shared_ptr<const GradientCompressor>& compressor);
  void at_pace(std::uint64_t steps, const std::function<void()>& make) const;
  void update(const Job& job);
  void load_state(const ReplicaState& state);
  void adopt(const DownloadedModel& fetched);
  void add(const Force& force);
  void fill(Snapshot& snapshot, bool with_rest) const;

  std::unique_ptr<Learner> learner_;
  OuterStep outer_;
  std::optional<MixRunner> mixing_;
  StepPace pace_;
  ConservationChecksum checksum_;
  std::shared_ptr<const GradientCompressor> asked_for_;  ///< Of the newest order that had one.
  std::unique_ptr<GradientCompressor> compressor_;       ///< Our own instance of that.
  GradientCompressor::Named restored_;  ///< A checkpoint's vectors, until it is known.
};

/// The conservation checksum with which a replica of this number starts. The sum over all peers
/// must return to its first value.
ConservationChecksum initial_checksum(std::uint64_t peer);

}  // namespace gv
