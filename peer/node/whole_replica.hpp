// A replica of the whole model: a learner, and the state that consensus keeps beside it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "consensus/compression/gradient_compressor.hpp"
#include "consensus/compression/outer_step.hpp"
#include "consensus/mixing/mixer.hpp"
#include "peer/node/replica.hpp"
#include "train/learner/learner.hpp"

namespace gv {

/// A learner, and the state that consensus keeps beside it. This state consists of the conservation
/// checksum (which follows the parameters through every exchange), the outer step, a mixing rule's
/// memory, and a gradient compressor.
class WholeReplica final : public Replica {
 public:
  /// `peer` seeds the conservation checksum, so that every replica starts with different integers.
  /// The hyper-parameters of a tunable learner are part of the state.
  WholeReplica(std::unique_ptr<Learner> learner, std::uint64_t peer, const LocalSteps& local = {});

  JobDone run(Job job) override;
  void set_hooks(ReplicaHooks hooks) override { hooks_ = std::move(hooks); }
  void mix_by(const MixRule& rule, std::uint64_t run_seed) override;

  std::uint64_t step() const override { return learner_->step(); }
  std::span<const float> parameters() const override { return learner_->parameters(); }
  ConservationChecksum checksum() const override { return checksum_; }

  SwarmNote swarm_note() const override { return swarm_note_; }
  std::vector<ReplicaPart> parts() const override;
  std::string restore(ReplicaPart part) override;

  void prefetch() override { learner_->prefetch(); }
  void stop() override { learner_->stop(); }
  bool has_ended() const override { return learner_->has_ended(); }

  const Learner& learner() const { return *learner_; }
  Learner& learner() { return *learner_; }

  /// Number of floats in a replica's whole state, in the form of task::LoadState.
  std::size_t state_size() const;
  /// The replica's state in a checkpoint besides the parameters and notes.
  OptimizerState optimizer_state() const;

 private:
  void adopt(const DownloadedModel& fetched);
  Reason problem_with(const task::LoadState& load, double norm) const;
  void refuse_state(JobDone& done);
  void note_end(const std::shared_ptr<const SwarmNote>& end_note);
  void load_state(const task::LoadState& state);
  void export_state(std::span<float> state) const;
  void become(std::span<const float> model, std::span<const float> optimizer, std::uint64_t step);
  void update(const task::ApplyUpdate& update, JobDone& done);
  void part_from_mode();
  void add(const std::vector<Force>& forces);
  void report_if_held(JobDone& done);
  void fill(const task::TakeSnapshot& task) const;
  Score compute(const task::ComputeGradient& task, std::uint64_t job, result::Gradient& found);
  std::size_t take_array(const task::ComputeGradient& task);
  void compress_by(const std::shared_ptr<const GradientCompressor>& compressor);
  Score take_steps(const task::TakeSteps& task);
  void enter(const task::EnterGeneration& task);
  void mix(task::MixRound& round, JobDone& done);
  void follow(const task::FollowSwarm& task);
  void at_pace(std::uint64_t steps, const std::function<void()>& make) const;
  Mixer<float>& mixer();
  std::span<float> live() { return learner_->live_parameters(); }

  std::unique_ptr<Learner> learner_;
  OuterStep outer_;
  std::optional<Mixer<float>> mixer_;
  std::uint64_t held_ = 0;  ///< Learner::held() after the newest change to which other peers
                            ///< contributed.
  bool is_held_ = false;    ///< True if the newest change by other peers has left parameters at
                            ///< their bound.
  ReplicaHooks hooks_;
  ConservationChecksum checksum_;
  SwarmNote swarm_note_;
  /// Squared lengths of our newest gradient, until the mean that contains it is applied.
  std::optional<result::GradientSquares> squares_;
  std::shared_ptr<const GradientCompressor> asked_for_;  ///< The compressor that the newest
                                                         ///< gradient selected.
  std::unique_ptr<GradientCompressor> compressor_;       ///< Our own instance of `asked_for_`.
  GradientCompressor::Named restored_;  ///< A checkpoint's vectors, until `asked_for_` is known.
};

}  // namespace gv
