// Computes the parts and costs of stages, and the rules by which replicas of a stage may mix.
#include "peer/modes/pipeline_options.hpp"

#include <algorithm>
#include <numeric>

#include "consensus/mixing/mix_message.hpp"

namespace gv {

MixRule in_runs(const MixRule& rule) {
  return {.topology = rule.topology,
          .partners = rule.partners,
          .gamma = rule.gamma,
          .alpha = rule.alpha,
          .codec = rule.codec,
          .guard = rule.guard,
          .fragments = rule.fragments};
}

namespace {

/// Describes a stage to the planner for unequal peers. A micro-batch is one sample, and the members
/// of a group share the stage's work.
SplitLayer split_layer(const StageSize& size, double seconds, bool is_shared) {
  SplitLayer layer;
  layer.operations = seconds / 3;  // A backward pass takes twice as long as a forward pass.
  layer.inputs = static_cast<double>(size.forward);
  layer.weights = static_cast<double>(size.parameters);
  double sliced = 0;
  for (const PartSize& slice : size.slices) sliced += static_cast<double>(slice.parameters);
  layer.weights += sliced;
  if (!is_shared || size.slices.empty()) return layer;
  layer.slices = size.slices.size();
  const std::size_t sums =
      std::max<std::size_t>({1, size.forward_sums.size(), size.backward_sums.size()});
  // Values that one member deals out are sent once, whereas the values of a sum are sent twice.
  const auto floats_in = [](const std::vector<GroupSum>& all, std::size_t i) {
    if (i >= all.size()) return 0.0;
    const std::size_t dealt = all[i].dealt.empty() ? 0 : all[i].dealt.back().end;
    return static_cast<double>(all[i].always) + static_cast<double>(dealt) / 2;
  };
  // Takes the mean over both directions and over all possible cuts.
  const auto edges_in = [&](const std::vector<GroupSum>& all, std::size_t i) {
    if (i >= all.size() || all[i].at_cut.empty()) return 0.0;
    const auto& floats = all[i].at_cut;
    return std::reduce(floats.begin(), floats.end(), 0.0) / static_cast<double>(2 * floats.size());
  };
  for (std::size_t i = 0; i < sums; ++i) {
    layer.units.push_back(
        {.operations = layer.operations / static_cast<double>(sums),
         .weights = sliced / static_cast<double>(sums),
         .grains = layer.slices,
         .inputs = floats_in(size.backward_sums, i),
         .outputs = floats_in(size.forward_sums, i),
         .edges = edges_in(size.forward_sums, i) + edges_in(size.backward_sums, i)});
  }
  return layer;
}

LayoutCosts layout_costs(const PipelineOptions& options) {
  LayoutCosts costs{.stages = {},
                    .kind = options.kind,
                    .router = options.router,
                    .micro_batches = options.micro_batches,
                    .ahead = options.ahead,
                    .group = options.group};
  for (std::size_t s = 0; s < options.stages.size(); ++s) {
    costs.stages.push_back(
        split_layer(options.stages[s], options.stage_seconds[s], options.group > 1));
  }
  return costs;
}

}  // namespace

StageParts PipelineOptions::parts() const {
  std::vector<std::size_t> slices;
  for (const StageSize& stage : stages) slices.push_back(stage.slices.size());
  return StageParts(slices);
}

std::vector<PartSize> PipelineOptions::part_sizes() const {
  std::vector<PartSize> sizes;
  for (const StageSize& stage : stages) sizes.push_back({stage.parameters, stage.state});
  for (const StageSize& stage : stages) {
    sizes.insert(sizes.end(), stage.slices.begin(), stage.slices.end());
  }
  return sizes;
}

StagePlanOptions PipelineOptions::planning() const {
  StagePlanOptions plan{.mirrored = kind == PipelineKind::chimera,
                        .parts = parts(),
                        .group = {.least = 1, .most = group},
                        .slices_most = slices_most,
                        .layouts = {}};
  for (const StageSize& stage : stages) {
    if (slices_most == 0 || stage.slices.empty()) continue;
    const std::size_t least = (stage.slices.size() + slices_most - 1) / slices_most;
    plan.group.least = std::min(group, std::max(plan.group.least, least));
  }
  if (this->plan == StagePlanKind::automatic) plan.layouts = layout_costs(*this);
  return plan;
}

std::size_t PipelineOptions::sent_bytes_max(std::uint32_t stage) const {
  const StageSize& size = stages[stage];
  std::size_t parameters = size.parameters;
  std::size_t state = size.state;
  for (const PartSize& slice : size.slices) {
    parameters += slice.parameters;
    state += slice.state;
  }
  std::size_t pass = size.forward;
  if (stage + 1 < stages.size()) pass += stages[stage + 1].backward;
  // With any algorithm, a peer sends another peer at most twice the values of a sum.
  for (const GroupSum& sum : size.forward_sums) pass += 2 * sum.most();
  for (const GroupSum& sum : size.backward_sums) pass += 2 * sum.most();
  // A test adds at most as many micro-batches as the run has, because further ones have to wait for
  // answers. Hence the factor 2.
  const std::size_t floats = 2 * micro_batches * pass + 2 * parameters + state;
  const bool mixes = consensus == StageConsensus::mixing;
  return sizeof(float) * floats + (mixes ? mix_message_bytes_max(size.parameters) : 0);
}

}  // namespace gv
