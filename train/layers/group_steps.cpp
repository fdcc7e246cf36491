// Lists steps, and inserts conversions between whole samples and strips where a layer needs them.
#include "train/layers/group_steps.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "train/layers/cut_loss.hpp"
#include "train/layers/cut_part.hpp"
#include "train/layers/cut_rows.hpp"
#include "train/layers/sliced_stage.hpp"

namespace gv {
namespace {

using Kind = GroupStep::Kind;

/// True if members may share the layers inside this one. They may not share the layers of a
/// shortcut or of parallel branches.
bool can_be_entered(const LayerPlan& layer) {
  return layer.spec.kind == LayerKind::stack ||
         (layer.spec.kind == LayerKind::residual && layer.shortcut.empty());
}

bool is_norm_in_strips(LayerKind kind) {
  return kind == LayerKind::group_norm || kind == LayerKind::batch_norm;
}

/// True if each member computes some rows of the layer. By default, only a convolution begins
/// strips; other layers go by rows only if members already have strips.
bool goes_by_rows(const LayerPlan& layer, bool has_strips) {
  const LayerSpec& spec = layer.spec;
  if (spec.split == LayerSplit::rows) return true;
  if (spec.split != LayerSplit::automatic || layer.out[1] < 2) return false;
  if (spec.kind == LayerKind::conv2d) {
    return (layer.end - layer.begin) * layer.out[1] * layer.out[2] >= cut_products_min;
  }
  return has_strips && (slides_over_rows(spec.kind) || is_of_each_value(spec.kind) ||
                        spec.kind == LayerKind::dropout || is_norm_in_strips(spec.kind));
}

bool is_shared_inside(std::span<const LayerPlan> layers, bool has_strips) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const bool by_model = layers_to_cut(layers, i) > 0 || goes_by_classes(layers[i]);
    if (by_model || goes_by_rows(layers[i], has_strips)) return true;
    if (can_be_entered(layers[i]) && is_shared_inside(layers[i].layers, has_strips)) return true;
  }
  return false;
}

/// True if windows of the layer may read rows that belong to another member.
bool reads_beyond(const LayerPlan& layer) {
  return slides_over_rows(layer.spec.kind) && (layer.spec.kernel > 1 || layer.spec.stride > 1);
}

/// True if the layer can be computed in the same step as the convolution before it. Members share
/// the step by its output rows, so there must be enough rows for every member.
bool follows_convolution(const LayerPlan& layer) {
  return follows_in_strip(layer) &&
         (is_of_each_value(layer.spec.kind) || layer.out[1] >= slices_of_stage);
}

class Steps {
 public:
  explicit Steps(MembersHave between) : between_(between) {}

  void append(std::span<const LayerPlan> layers) {
    for (std::size_t i = 0; i < layers.size();) {
      const std::size_t shared = layers_to_cut(layers, i);
      const auto own = layers.subspan(i, std::max<std::size_t>(1, shared));
      i += own.size();
      if (shared > 0 || goes_by_classes(own.front())) {
        move_to(false, own.front().in);
        push(shared > 0 ? Kind::unit : Kind::classes, own, own.front().in, own.back().out);
      } else if (goes_by_rows(own.front(), has_strips())) {
        append_rows(own.front());
      } else if (can_be_entered(own.front()) &&
                 is_shared_inside(own.front().layers, has_strips())) {
        enter(own.front());
      } else {
        move_to(false, own.front().in);
        push(Kind::whole, own, own.front().in, own.back().out);
      }
    }
  }

  /// Converts samples of this shape to strips (if `strips`) or to whole samples, if necessary.
  void move_to(bool strips, const SampleShape& shape) {
    if (has_strips() == strips) return;
    between_ = strips ? MembersHave::strips : MembersHave::samples;
    push(strips ? Kind::scatter : Kind::gather, {}, shape, shape);
  }

  std::vector<GroupStep> take() { return std::move(steps_); }
  MembersHave between() const { return between_; }

 private:
  void push(Kind kind, std::span<const LayerPlan> layers, const SampleShape& in,
            const SampleShape& out) {
    steps_.push_back({.kind = kind,
                      .layers = {layers.begin(), layers.end()},
                      .in = in,
                      .out = out,
                      .is_strip = has_strips()});
  }

  bool has_strips() const { return between_ != MembersHave::samples; }

  void append_rows(const LayerPlan& layer) {
    if (between_ == MembersHave::strips_of_convolution && follows_convolution(layer)) {
      return follow_convolution(layer);
    }
    const bool had_strips = has_strips();
    between_ = MembersHave::strips;
    const bool is_exchanged = !had_strips || reads_beyond(layer);
    if (is_exchanged) {
      push(had_strips ? Kind::edges : Kind::scatter, {&layer, 1}, layer.in, layer.in);
    }
    const Kind kind = is_norm_in_strips(layer.spec.kind) ? Kind::norm : Kind::rows;
    push(kind, {&layer, 1}, layer.in, layer.out);
    if (is_exchanged && layer.spec.kind == LayerKind::conv2d) {
      between_ = MembersHave::strips_of_convolution;
    }
  }

  /// Adds the layer to the step of the convolution before it. Members then read more input rows. If
  /// both neighbours of a cut need the same rows between the two layers, both compute them, which
  /// takes less time than another exchange.
  void follow_convolution(const LayerPlan& layer) {
    if (steps_.empty()) return push(Kind::rows, {&layer, 1}, layer.in, layer.out);
    steps_.back().layers.push_back(layer);
    steps_.back().out = layer.out;
    if (steps_.size() > 1 && brings_rows(steps_[steps_.size() - 2].kind)) {
      steps_[steps_.size() - 2].layers.push_back(layer);
    }
  }

  void enter(const LayerPlan& layer) {
    if (layer.spec.kind == LayerKind::stack) return append(layer.layers);
    const bool had_strips = has_strips();
    const std::size_t fork = steps_.size();
    push(Kind::fork, {}, layer.in, layer.in);
    end_convolution();
    append(layer.layers);
    move_to(had_strips, layer.out);
    steps_[fork].other = steps_.size();
    push(Kind::join, {}, layer.out, layer.out);
    steps_.back().other = fork;
    end_convolution();
  }

  /// Prevents later layers from joining the step of an earlier convolution.
  void end_convolution() {
    if (has_strips()) between_ = MembersHave::strips;
  }

  std::vector<GroupStep> steps_;
  MembersHave between_;  ///< The form in which members have the last step's outputs.
};

bool is_trained(const GroupStep& step) {
  return !brings_rows(step.kind) && std::ranges::any_of(step.layers, [](const LayerPlan& layer) {
    return layer.has_parameters();
  });
}

/// Returns the sum that members make in this step of the forward pass or, if `backward`, of the
/// backward pass; nullopt if there is none.
std::optional<GroupSum> sum_of(const SlicedStage& stage, const GroupStep& step, bool backward) {
  if (!is_summed(step.kind, backward)) return std::nullopt;
  if (step.kind == Kind::edges) {
    GroupSum sum{.always = 0, .at_cut = std::vector<std::size_t>(stage.slices())};
    for (std::size_t cut = 1; cut < stage.slices(); ++cut) {
      const std::vector<Range> rows = edge_rows(stage, step.layers, std::array{cut});
      sum.at_cut[cut] = rows.front().size() * step.in[0] * step.in[2];
    }
    return sum;
  }
  if (step.kind == Kind::norm || (step.kind == Kind::classes && !backward)) {
    // In the forward pass, the sum has a place for every member.
    const LayerPlan& layer = step.layers.front();
    const bool is_of_batch = has_batch_statistics(step);
    const std::size_t groups = is_of_batch ? step.in[0] : layer.spec.groups;
    GroupSum sum{.always = step.kind == Kind::norm ? 2 * groups : loss_part_floats * layer.rows,
                 .is_of_batch = is_of_batch};
    if (!backward) sum.at_cut.assign(stage.slices(), sum.always);
    return sum;
  }
  return GroupSum{.always = elements(backward ? step.in : step.out)};
}

}  // namespace

std::vector<GroupStep> group_steps(const ModelPlan& plan) {
  Steps steps(MembersHave::samples);
  steps.append(plan.layers);
  if (!plan.layers.empty()) steps.move_to(false, plan.layers.back().out);
  return steps.take();
}

std::vector<GroupStep> group_steps(std::span<const LayerPlan> layers, MembersHave& between) {
  Steps steps(between);
  steps.append(layers);
  between = steps.between();
  return steps.take();
}

bool is_summed(GroupStep::Kind kind, bool backward) {
  return kind == Kind::unit || kind == Kind::edges || kind == Kind::norm || kind == Kind::classes ||
         kind == (backward ? Kind::scatter : Kind::gather);
}

bool has_batch_statistics(const GroupStep& step) {
  return step.kind == Kind::norm && step.layers.front().spec.kind == LayerKind::batch_norm;
}

bool brings_rows(GroupStep::Kind kind) { return kind == Kind::scatter || kind == Kind::edges; }

std::size_t first_trained(const std::vector<GroupStep>& steps) {
  return static_cast<std::size_t>(std::ranges::find_if(steps, is_trained) - steps.begin());
}

std::vector<GroupSum> group_sums(const SlicedStage& stage, bool backward, bool wants_d_inputs) {
  const std::vector<GroupStep> steps = group_steps(stage.plan());
  std::vector<GroupSum> sums;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (backward && !wants_d_inputs && i <= first_trained(steps)) continue;
    if (auto sum = sum_of(stage, steps[i], backward)) sums.push_back(*std::move(sum));
  }
  if (backward) std::ranges::reverse(sums);
  return sums;
}

std::vector<Range> shares_of(const SlicedStage& stage, std::size_t grains,
                             std::span<const std::size_t> cuts) {
  std::vector<Range> shares;
  std::size_t begin = 0;
  for (const std::size_t cut : cuts) {
    shares.push_back(stage.grains_of(grains, {std::exchange(begin, cut), cut}));
  }
  shares.push_back(stage.grains_of(grains, {begin, stage.slices()}));
  return shares;
}

Range rows_to_read(const SlicedStage& stage, std::span<const LayerPlan> readers,
                   const Range& slices) {
  return rows_read_by(readers, stage.grains_of(readers.back().out[1], slices));
}

std::vector<Range> rows_read_at_first(const SlicedStage& stage) {
  const std::vector<GroupStep> steps = group_steps(stage.plan());
  std::vector<Range> rows;
  if (steps.empty() || steps.front().kind != Kind::scatter) return rows;
  const std::vector<LayerPlan>& readers = steps.front().layers;
  for (std::size_t slice = 0; slice < stage.slices(); ++slice) {
    const Range from_here = rows_to_read(stage, readers, {slice, stage.slices()});
    const Range to_here = rows_to_read(stage, readers, {0, slice + 1});
    const std::size_t begin = from_here.empty() ? to_here.end : from_here.begin;
    rows.push_back({begin, std::max(begin, to_here.end)});
  }
  return rows;
}

std::vector<Range> edge_rows(const SlicedStage& stage, std::span<const LayerPlan> readers,
                             std::span<const std::size_t> cuts) {
  std::vector<Range> edges;
  for (const std::size_t cut : cuts) {
    const std::size_t begin = stage.grains_of(readers.front().in[1], {0, cut}).end;
    const Range above = rows_to_read(stage, readers, {0, cut});
    const Range below = rows_to_read(stage, readers, {cut, stage.slices()});
    edges.push_back({below.empty() ? begin : std::min(begin, below.begin),
                     above.empty() ? begin : std::max(begin, above.end)});
  }
  return edges;
}

}  // namespace gv
