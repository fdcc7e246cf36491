// A replica of the stages of the model that one peer of a pipeline carries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "consensus/message/message.hpp"
#include "consensus/pipeline/stage_parts.hpp"
#include "peer/node/replica.hpp"
#include "peer/node/stage_mixers.hpp"
#include "peer/node/swarm_note.hpp"
#include "train/learner/stage_learner.hpp"

namespace gv {

/// Stages, and the state that consensus keeps beside them: their version and their mixers.
class StageReplica final : public Replica {
 public:
  explicit StageReplica(std::unique_ptr<StageLearner> learner);

  JobDone run(Job job) override;
  void set_hooks(ReplicaHooks hooks) override { hooks_ = std::move(hooks); }
  void mix_by(const MixRule& rule, std::uint64_t run_seed) override;

  std::uint64_t step() const override { return learner_->step(); }
  std::span<const float> stage(std::size_t stage) const override;
  std::vector<Range> stage_ranges(std::size_t stage) const override;
  std::vector<float> part(std::uint32_t part) const override;
  std::vector<ReplicaPart> parts() const override;
  std::string restore(ReplicaPart part) override;
  SwarmNote swarm_note() const override { return swarm_note_; }

  /// The carried parts, ascending.
  std::vector<std::uint32_t> held_parts() const;
  StageValues state(std::uint32_t part) const;
  const StageParts& numbers() const { return parts_; }
  const StageLearner& learner() const { return *learner_; }
  StageLearner& learner() { return *learner_; }

 private:
  void end(const StageEnd& end);
  PartOfStage named(std::uint32_t part) const;
  bool holds(std::uint32_t part) const;
  void load(const task::LoadStages& task);
  void copy(const std::vector<StageCopy>& copies) const;
  /// Returns false if a parameter is not finite.
  bool copy(const task::CopyParameters& task) const;
  Score pass(const task::StagePass& task);
  void test(const task::StagePass& task);

  /// Views of the gradients in a sum, without the numbers that follow them.
  template <class T>
  HeldValues<T> gradients(std::uint32_t stage, const StageValues& common,
                          const StageValues& slices) const;

  std::unique_ptr<StageLearner> learner_;
  StageParts parts_;
  ReplicaHooks hooks_;
  SwarmNote swarm_note_;
  bool held_in_run_ = false;  ///< True if an update since the end of the last run held parameters
                              ///< at their bound.
  bool is_held_ = false;      ///< True if the newest run has left parameters at their bound.
  ModelVersion version_;      ///< Saved in checkpoints. Stages of equal version are identical.
  std::optional<StageMixers> mixers_;
};

/// Returns the slices of a stage that a checkpoint with these notes contains. Returns all of the
/// stage's slices if the notes name none, or if they name one that the stage lacks, as notes from a
/// file may.
Range held_slices(const StageLearner& learner, std::size_t stage,
                  const std::map<std::string, std::string>& notes);
/// The range of slices in the notes of a stage's checkpoint; nullopt if the checkpoint holds a
/// whole stage.
std::optional<Range> slices_of(const std::map<std::string, std::string>& notes);
/// The version in the notes of a part; empty if they have none.
std::optional<ModelVersion> version_of(const std::map<std::string, std::string>& notes);

}  // namespace gv
