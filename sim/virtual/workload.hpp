// What a virtual peer computes: real training, a quadratic with a known optimum, or only time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "peer/modes/pipeline_options.hpp"
#include "peer/node/replica.hpp"
#include "peer/node/stage_replica.hpp"

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

  /// From here on its hyper-parameters are its own, these at first. A replica that trains takes its
  /// trainer's and is already in a population; others have none.
  virtual void join_population(const Hyperparameters&) {}

  virtual std::uint64_t step() const = 0;
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

/// Stages of the run's model, with the peer's shard. A crash loses them, so a peer that comes back
/// is a newcomer. `parameters()` are those of all stages it carries, in order.
std::unique_ptr<Workload> stage_workload(StageReplica replica);

/// Computes nothing: stages of these sizes, whose gradients are 1 for each micro-batch.
std::unique_ptr<Workload> idle_stage_workload(std::vector<StageSize> sizes);

/// Peer i minimises f_i(x) = 1/2 sum_k h_k (x_k - c_ik)^2 by plain gradient descent, with uniform
/// noise of a given deviation in every gradient. The curvatures h_k rise geometrically from 0.1
/// to 1. The sum over peers has its optimum at the mean of the c_i, so bias and variance of any
/// rule are exact.
struct QuadraticSpec {
  std::size_t dimension = 64;
  double learning_rate = 0.1;
  double noise = 0.1;
  double disagreement = 1;  ///< Deviation of c_i around the common centre, which is 1 everywhere.
  std::uint64_t seed = 1;
};
std::unique_ptr<Workload> quadratic_workload(const QuadraticSpec& spec, std::size_t peer,
                                             const LocalSteps& local = {});

/// Peer i's own optimum c_i, and the optimum of the sum over `peers` peers: the mean of theirs.
std::vector<double> quadratic_optimum(const QuadraticSpec& spec, std::size_t peer);
std::vector<double> common_optimum(const QuadraticSpec& spec, std::size_t peers);
/// The same for these peers alone, of which there is at least one.
std::vector<double> common_optimum(const QuadraticSpec& spec, std::span<const std::size_t> peers);

/// The mean of all f_i at `model`, minus its least value at `optimum`.
double quadratic_excess(const QuadraticSpec& spec, std::span<const double> optimum,
                        std::span<const float> model);

/// Computes nothing: parameters, drawn for each peer (or, if `alike`, once for all), change through
/// exchanges and through sums of drawn gradients.
std::unique_ptr<Workload> idle_workload(std::size_t dimension, std::uint64_t seed, std::size_t peer,
                                        bool alike = false, const LocalSteps& local = {});

}  // namespace gv
