// What a virtual peer computes: a replica, or one of stages, that the simulator can save and
// restore.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "peer/node/replica.hpp"
#include "peer/node/stage_replica.hpp"
#include "sim/virtual/stand_ins.hpp"

namespace gv {

/// Everything that a checkpoint holds of a replica.
struct Image {
  std::vector<float> parameters;
  OptimizerState optimizer;
  ConservationChecksum checksum{};
  std::uint64_t step = 0;
};

/// One replica. Everything happens inline; the simulator charges the time.
class Workload {
 public:
  virtual ~Workload() = default;

  /// Runs the whole job but the save.
  virtual JobDone run(Job job) = 0;

  /// From here on it mixes with neighbours by that rule, in the run of that seed.
  virtual void mix_by(const MixRule& rule, std::uint64_t run_seed) = 0;

  /// From here on its hyper-parameters are its own, these at first. One that trains has those of
  /// its learner from the start.
  virtual void join_population(const Hyperparameters&) {}

  virtual std::uint64_t step() const = 0;
  /// Those of a whole model; empty in a pipeline.
  virtual std::span<const float> parameters() const = 0;
  virtual const ConservationChecksum& checksum() const = 0;
  /// Pipeline: parameters of one stage; empty if it is not carried.
  virtual std::span<const float> stage(std::size_t) const { return {}; }

  virtual Image image() const = 0;
  /// Goes on from an image of an equal replica.
  virtual void restore(const Image& image) = 0;
};

/// Makes a peer's replica before its first step.
using MakeWorkload = std::function<std::unique_ptr<Workload>(std::size_t peer)>;

/// The run's model on the peer's shard.
std::unique_ptr<Workload> training_workload(Replica replica);

/// Stages of a model. A crash loses them, so a peer that comes back is a newcomer.
std::unique_ptr<Workload> stage_workload(StageReplica replica);

/// Stages of these sizes that cost only time.
std::unique_ptr<Workload> idle_stage_workload(const std::vector<StageSize>& sizes);

/// Gradient descent on the peer's quadratic.
std::unique_ptr<Workload> quadratic_workload(const QuadraticSpec& spec, std::size_t peer,
                                             const LocalSteps& local = {});

/// A vector of that size, whose learning costs only time.
std::unique_ptr<Workload> idle_workload(std::size_t dimension, std::uint64_t seed, std::size_t peer,
                                        bool alike = false, const LocalSteps& local = {});

}  // namespace gv
