// Cuts models into stages, and estimates the work of their layers.
#include "train/model_stages.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "train/layers/cut_loss.hpp"
#include "train/layers/cut_part.hpp"
#include "train/layers/cut_rows.hpp"
#include "train/layers/group_steps.hpp"
#include "train/layers/plan.hpp"

namespace gv {
namespace {

/// Number of multiplications and additions in one sample's forward pass.
double operations(const LayerPlan& layer) {
  double sum = static_cast<double>(elements(layer.in) + elements(layer.out));
  for (const LayerPlan& inner : layer.layers) sum += operations(inner);
  for (const LayerPlan& beside : layer.shortcut) sum += operations(beside);
  if (!layer.layers.empty()) return sum;
  const double weights = static_cast<double>(layer.end - layer.begin);
  const double positions = static_cast<double>(layer.in[0]);
  switch (layer.spec.kind) {
    case LayerKind::conv2d:
      return sum + 2 * weights * static_cast<double>(layer.out[1] * layer.out[2]);
    case LayerKind::dense:
      return sum + 2 * static_cast<double>(layer.rows) *
                       static_cast<double>(elements(layer.in) / layer.rows) *
                       static_cast<double>(elements(layer.out) / layer.rows);
    case LayerKind::attention:
      // Each position has its projections, and two products with each position before it.
      return sum + 2 * weights * positions +
             2 * positions * positions * static_cast<double>(layer.in[2]);
    case LayerKind::lstm:
      return sum + 2 * weights * positions;
    case LayerKind::clusters:
      return sum + 2 * weights;
    case LayerKind::kernel_features:
      return sum +
             static_cast<double>(elements(layer.in)) * static_cast<double>(elements(layer.out));
    default:
      return sum;
  }
}

/// The mean number of floats that two neighbouring members exchange as rows before the layers
/// `readers`.
std::size_t edges_of(const SlicedStage& whole, std::span<const LayerPlan> readers) {
  std::vector<std::size_t> cuts(whole.slices() - 1);
  std::iota(cuts.begin(), cuts.end(), 1);
  std::size_t rows = 0;
  for (const Range& edge : edge_rows(whole, readers, cuts)) rows += edge.size();
  return rows * readers.front().in[0] * readers.front().in[2] / cuts.size();
}

/// Describes in `work` how a group shares `layer`, which must not be part of a pair. `between` is
/// the form of the members' values before the layer, and becomes the form after it.
void describe_units(const SlicedStage& whole, const LayerPlan& layer, MembersHave& between,
                    LayerWork& work) {
  using Kind = GroupStep::Kind;
  bool is_first = true;
  bool takes_strips = between != MembersHave::samples;
  std::size_t edges = 0;
  for (const GroupStep& step : group_steps({&layer, 1}, between)) {
    const bool has_rows = step.kind == Kind::rows || step.kind == Kind::norm;
    const bool is_unit = step.kind == Kind::unit || step.kind == Kind::classes || has_rows;
    const bool computes = is_unit || step.kind == Kind::whole;
    const bool learns = computes && std::ranges::any_of(step.layers, [](const LayerPlan& inner) {
                          return inner.has_parameters();
                        });
    if (learns && std::exchange(is_first, false)) work.begins_shared = is_unit;
    if (step.kind == Kind::scatter || step.kind == Kind::gather) takes_strips = false;
    if (brings_rows(step.kind) && !step.layers.empty()) edges = edges_of(whole, step.layers);
    if (!is_unit) continue;
    SharedUnit unit{.inputs = elements(step.in),
                    .outputs = elements(step.out),
                    .has_strips = has_rows,
                    .takes_strips = takes_strips};
    for (const LayerPlan& inner : step.layers) unit.operations += operations(inner);
    if (has_rows) {
      unit.grains = step.out[1];
      const LayerPlan& reader = step.layers.front();
      unit.edges = std::exchange(edges, 0);
      if (has_batch_statistics(step)) {
        unit.statistics = 2 * step.in[0];
      } else if (step.kind == Kind::norm) {
        unit.edges = 2 * reader.spec.groups;
      }
    } else {
      unit.grains = grains(step.layers);
      for (const LayerPlan& inner : step.layers) unit.parameters += inner.end - inner.begin;
      unit.parameters -= biases_of(step.layers).size();
    }
    // Members sum their parts of the loss instead of the outputs. The figure assumes two members.
    if (step.kind == Kind::classes) unit.outputs = 2 * loss_part_floats * step.layers.front().rows;
    work.units.push_back(unit);
    takes_strips = unit.has_strips;
  }
}

/// The number of elements in the ranges that lie within `bounds`. `bounds` must not cut any range.
std::size_t size_within(const std::vector<Range>& ranges, const Range& bounds) {
  std::size_t size = 0;
  for (const Range& range : ranges) {
    if (range.begin >= bounds.begin && range.end <= bounds.end) size += range.size();
  }
  return size;
}

}  // namespace

std::vector<SlicedStage> sliced_stages(const ModelSpec& model, SampleShape input,
                                       const std::vector<std::size_t>& ends, std::size_t slices) {
  Problems unsound;
  const ModelPlan plan = plan_model(model, input, unsound);
  std::vector<SlicedStage> stages;
  std::size_t first = 0;
  for (const std::size_t end : ends) {
    stages.emplace_back(slice(plan, std::exchange(first, end), end), slices);
  }
  return stages;
}

std::vector<bool> shareable_stages(const ModelSpec& model, SampleShape input,
                                   const std::vector<std::size_t>& ends) {
  Problems unsound;
  const ModelPlan plan = plan_model(model, input, unsound);
  std::vector<bool> shareable;
  std::size_t first = 0;
  for (const std::size_t end : ends) {
    shareable.push_back(SlicedStage(slice(plan, std::exchange(first, end), end), 1).slices() > 0);
  }
  return shareable;
}

std::vector<LayerWork> layer_work(const ModelSpec& model, SampleShape input) {
  Problems unsound;
  const ModelPlan plan = plan_model(model, input, unsound);
  const SlicedStage as_one(plan, 1);
  const SlicedStage whole(plan, slices_of_stage);
  MembersHave between = MembersHave::samples;
  const std::vector<Range> sliced =
      as_one.slices() > 0 ? as_one.ranges_of_slice(0) : std::vector<Range>();
  std::vector<LayerWork> all;
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    const LayerPlan& layer = plan.layers[i];
    all.push_back({.operations = operations(layer),
                   .parameters = layer.end - layer.begin,
                   .sliced = size_within(sliced, {layer.begin, layer.end}),
                   .outputs = elements(layer.out),
                   .may_begin_stage = may_cut(plan, i) && layer.has_parameters(),
                   .units = {}});
    describe_units(whole, layer, between, all.back());
    const std::size_t shared = layers_to_cut(plan.layers, i);
    if (shared > 1) {
      all.back().pair_grains = grains(std::span<const LayerPlan>(plan.layers).subspan(i, shared));
    }
  }
  return all;
}

Problems cut_problems(const ModelSpec& model, SampleShape input,
                      const std::vector<std::size_t>& ends) {
  Problems unsound;
  const ModelPlan plan = plan_model(model, input, unsound);
  if (!unsound.empty()) return unsound;
  Problems found;
  const std::string count = std::to_string(plan.layers.size());
  const bool rises = std::ranges::adjacent_find(ends, std::ranges::greater_equal{}) == ends.end();
  if (ends.empty() || !rises || ends.front() == 0 || ends.back() != plan.layers.size()) {
    found.push_back({"pipeline.ends", "the stages do not divide the model's " + count + " layers",
                     "give one past the last layer of each stage, rising, the last " + count});
    return found;
  }
  std::size_t first = 0;
  for (std::size_t s = 0; s < ends.size(); ++s) {
    if (!may_cut(plan, first)) {
      found.push_back({"pipeline.ends", "layers that share a table of tokens are in two stages",
                       "write tied = false in [model]"});
      return found;
    }
    const bool learns = std::any_of(plan.layers.begin() + static_cast<std::ptrdiff_t>(first),
                                    plan.layers.begin() + static_cast<std::ptrdiff_t>(ends[s]),
                                    [](const LayerPlan& layer) { return layer.has_parameters(); });
    if (!learns) {
      found.push_back(
          {"pipeline.ends", "stage " + std::to_string(s) + " has no parameters", "cut elsewhere"});
    }
    first = ends[s];
  }
  return found;
}

}  // namespace gv
