// Replicas as the simulator has them.
#include "sim/virtual/workload.hpp"

#include <utility>

#include "base/check.hpp"

namespace gv {
namespace {

class ReplicaWorkload : public Workload {
 public:
  /// `stand_in` is the replica's learner; null if it is another one.
  ReplicaWorkload(Replica replica, StandIn* stand_in)
      : replica_(std::move(replica)), stand_in_(stand_in) {}

  JobDone run(Job job) override { return replica_.run(std::move(job)); }
  void mix_by(const MixRule& rule, std::uint64_t run_seed) override {
    replica_.mix_by(rule, run_seed);
  }
  void join_population(const Hyperparameters& first) override {
    if (stand_in_ != nullptr) stand_in_->join_population(first.learning_rate);
  }
  std::uint64_t step() const override { return replica_.learner().step(); }
  std::span<const float> parameters() const override { return replica_.learner().parameters(); }
  const ConservationChecksum& checksum() const override { return replica_.checksum(); }

  Image image() const override {
    const auto values = parameters();
    return {
        {values.begin(), values.end()}, replica_.optimizer_state(), replica_.checksum(), step()};
  }

  void restore(const Image& image) override {
    const std::string problem = replica_.restore(image.parameters, image.optimizer);
    check(problem.empty(), "a virtual peer's own image fits it");
    replica_.set_checksum(image.checksum);
  }

 private:
  Replica replica_;
  StandIn* stand_in_;
};

class StageWorkload : public Workload {
 public:
  explicit StageWorkload(StageReplica replica) : replica_(std::move(replica)) {}

  JobDone run(Job job) override { return replica_.run(std::move(job)); }
  void mix_by(const MixRule& rule, std::uint64_t run_seed) override {
    replica_.mix_by(rule, run_seed);
  }
  std::uint64_t step() const override { return replica_.learner().step(); }
  std::span<const float> parameters() const override { return {}; }
  const ConservationChecksum& checksum() const override { return checksum_; }
  std::span<const float> stage(std::size_t stage) const override {
    const StageLearner& learner = replica_.learner();
    return learner.carries(stage) ? learner.parameters(stage) : std::span<const float>();
  }
  Image image() const override { return {}; }
  void restore(const Image&) override {}

 private:
  StageReplica replica_;
  ConservationChecksum checksum_{};
};

std::unique_ptr<Workload> stand_in_workload(std::unique_ptr<StandIn> learner, std::size_t peer,
                                            const LocalSteps& local) {
  StandIn* const own = learner.get();
  return std::make_unique<ReplicaWorkload>(Replica(std::move(learner), peer, local), own);
}

}  // namespace

std::unique_ptr<Workload> training_workload(Replica replica) {
  return std::make_unique<ReplicaWorkload>(std::move(replica), nullptr);
}

std::unique_ptr<Workload> stage_workload(StageReplica replica) {
  return std::make_unique<StageWorkload>(std::move(replica));
}

std::unique_ptr<Workload> idle_stage_workload(const std::vector<StageSize>& sizes) {
  return stage_workload(StageReplica(idle_stage_learner(sizes)));
}

std::unique_ptr<Workload> quadratic_workload(const QuadraticSpec& spec, std::size_t peer,
                                             const LocalSteps& local) {
  return stand_in_workload(quadratic_learner(spec, peer), peer, local);
}

std::unique_ptr<Workload> idle_workload(std::size_t dimension, std::uint64_t seed, std::size_t peer,
                                        bool alike, const LocalSteps& local) {
  return stand_in_workload(idle_learner(dimension, seed, peer, alike), peer, local);
}

}  // namespace gv
