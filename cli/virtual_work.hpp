// The task of virtual peers, and the evaluation of their models.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cli/judgement.hpp"
#include "peer/config/task.hpp"
#include "peer/node/node.hpp"
#include "sim/scenario.hpp"
#include "sim/virtual/hostile.hpp"
#include "sim/virtual/stand_ins.hpp"
#include "train/model.hpp"

namespace gv {

/// The work of the peers, and how to evaluate it.
class VirtualWork {
 public:
  using Hostile = std::map<std::size_t, HostileRule>;

  VirtualWork(const Config& config, const Scenario& scenario, const Hostile& hostile);

  const Problems& problems() const { return problems_; }
  const Layout& layout() const { return layout_; }
  /// Number of steps that each peer would make if all were equally fast.
  const std::vector<std::uint64_t>& steps() const { return steps_; }
  /// Number of samples in each peer's shard; empty if there is no data.
  const std::vector<std::uint64_t>& data() const { return data_; }

  /// The options of every peer's node.
  NodeOptions node() const;

  /// Makes a new replica for the peer.
  std::unique_ptr<Replica> make(std::size_t peer) const;

  /// Evaluates a model on all test data or, if `quickly`, on a part of it.
  Judgement judge(std::span<const float> model, bool quickly);

 private:
  std::unique_ptr<Replica> made(std::size_t peer) const;
  void prepare_training();
  void flip_labels(std::size_t peer);
  void prepare_vectors(const Hostile& hostile);

  Config config_;
  Scenario scenario_;
  Problems problems_;
  std::vector<Task> tasks_;
  TestSet test_;
  std::optional<DataSet> quick_;
  std::optional<Model> model_;
  Layout layout_;
  QuadraticSpec quadratic_;
  std::vector<double> optimum_;
  std::vector<std::uint64_t> steps_;
  std::vector<std::uint64_t> data_;
};

}  // namespace gv
