// The points of a pipeline run at which tests kill a peer, as named in docs/faults.md. A node has
// reached a point when it asks for certain effects.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "peer/modes/generations.hpp"
#include "peer/modes/pipeline.hpp"
#include "peer/node/node.hpp"

namespace gv {

inline const std::vector<std::string> pipeline_points = {"p1", "p2", "p3", "p4", "p5", "p6"};

/// True if a node of a pipeline that asks for these effects is at the point with that name.
inline bool is_at_pipeline_point(std::string_view point, const Node& node,
                                 const NodeEffects& effects) {
  const Generation* generation = node.as<PipelineMode>()->generations()->agreement().generation();
  if (generation == nullptr) return false;
  const auto sends = [&](auto fits) {
    return std::ranges::any_of(effects.transfers, [&](const Transfer& transfer) {
      return transfer.id.session == generation->key() && fits(transfer.id);
    });
  };
  const auto sends_pass = [&](bool backward) {
    return sends([&](const TransferId& id) {
      const auto pass = pass_named(id);
      return pass && pass->backward == backward;
    });
  };
  const auto asks_for = [&](auto fits) {
    return std::ranges::any_of(effects.jobs, [&](const Job& job) { return fits(job.tasks); });
  };
  if (point == "p1") {
    return std::ranges::any_of(effects.facts, [](const Fact& fact) {
      return std::holds_alternative<GenerationBegan>(fact);
    });
  }
  if (point == "p2") return sends_pass(false);
  if (point == "p3") return sends_pass(true);
  if (point == "p4") {
    return asks_for([](const auto& tasks) {
      const auto* pass = first_of<task::StagePass>(tasks);
      return pass != nullptr && pass->sum;
    });
  }
  if (point == "p5") {
    return asks_for([](const auto& tasks) { return first_of<task::EndRun>(tasks) != nullptr; });
  }
  return point == "p6" && sends([](const TransferId& id) { return id.kind == TransferKind::copy; });
}

}  // namespace gv
