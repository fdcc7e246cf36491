// Derives the pieces of a model from its plan.
#include "peer/config/split_layers.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "base/check.hpp"
#include "peer/config/config_settings.hpp"
#include "train/layers/cut_rows.hpp"
#include "train/layers/plan.hpp"
#include "train/learner/group_place.hpp"
#include "train/model_stages.hpp"

namespace gv {
namespace {

double elements_of(const SampleShape& shape) { return static_cast<double>(elements(shape)); }

bool is_activation(LayerKind kind) {
  return kind == LayerKind::relu || kind == LayerKind::tanh || kind == LayerKind::gelu ||
         kind == LayerKind::dropout;
}

/// Describes how to share a residual layer that contains an optional norm, followed either by
/// attention or by two dense layers with activations between them. Every member of the group
/// computes the norm and whatever lies between residual layers.
void describe_residual(const LayerPlan& residual, SplitLayer& costs) {
  std::vector<const LayerPlan*> inner;
  for (const LayerPlan& layer : residual.layers) {
    const bool is_cut =
        layer.spec.kind == LayerKind::attention || layer.spec.kind == LayerKind::dense;
    if (!inner.empty() || is_cut) inner.push_back(&layer);
  }
  while (!inner.empty() && inner.back()->spec.kind == LayerKind::dropout) inner.pop_back();
  if (inner.empty()) return;
  const LayerSpec& front = inner.front()->spec;
  if (inner.size() == 1 && front.kind == LayerKind::attention) {
    costs.model_grains = front.heads;
    costs.merge = OutputMerge::sum;
    return;
  }
  const bool is_pair = inner.size() > 1 && front.kind == LayerKind::dense &&
                       inner.back()->spec.kind == LayerKind::dense &&
                       std::all_of(inner.begin() + 1, inner.end() - 1, [](const LayerPlan* layer) {
                         return is_activation(layer->spec.kind);
                       });
  if (!is_pair) return;
  costs.model_grains = front.units;
  costs.merge = OutputMerge::sum;
}

/// Returns the number of floats that a strip gets from a neighbour before this layer. Counts only
/// the larger of the rows needed from above and those needed from below, because they come from
/// different neighbours.
double halo_of(const LayerPlan& layer) {
  const auto kernel = static_cast<double>(layer.spec.kernel);
  const auto stride = static_cast<double>(layer.spec.stride);
  const auto padding = static_cast<double>(layer.spec.padding);
  const double rows = std::max({padding, kernel - stride - padding, 0.0});
  return rows * static_cast<double>(layer.in[0] * layer.in[2]);
}

/// Offers the rows for sharing if only pools, activations and a final flatten follow the
/// convolution.
void describe_rows(const std::vector<LayerPlan>& layers, ModelPiece& piece) {
  SplitLayer& costs = piece.costs;
  for (std::size_t i = piece.first; i < piece.end; ++i) {
    const LayerPlan& layer = layers[i];
    if (slides_over_rows(layer.spec.kind)) {
      costs.rows = layer.out[1];
      const double halo = halo_of(layer);
      costs.halo += halo;
      costs.halo_messages += halo > 0 ? 1 : 0;
    } else if (layer.spec.kind == LayerKind::flatten && i + 1 < piece.end) {
      costs.rows = 0;
      return;
    }
  }
}

void describe(const ModelSpec& model, const std::vector<LayerPlan>& layers, ModelPiece& piece) {
  const auto begin = layers.begin() + static_cast<std::ptrdiff_t>(piece.first);
  const auto end = layers.begin() + static_cast<std::ptrdiff_t>(piece.end);
  const auto main = std::find_if(begin, end, [](const LayerPlan& l) { return l.has_parameters(); });
  SplitLayer& costs = piece.costs;
  costs.name = layer_name((main == end ? *begin : *main).spec);
  costs.inputs = elements_of(begin->in);
  costs.outputs = elements_of((end - 1)->out);
  if (main == end) return;
  const LayerSpec& spec = main->spec;
  switch (spec.kind) {
    case LayerKind::dense: {
      const bool is_last = end == layers.end() && main + 1 == end;
      const bool in_parts = is_last && model.loss == LossKind::cross_entropy;
      costs.has_factors = !spec.tied;
      costs.model_grains = spec.units;
      costs.merge = in_parts ? OutputMerge::none : OutputMerge::gather;
      if (spec.tied) costs.tied_to = 0;
      break;
    }
    case LayerKind::conv2d:
      costs.model_grains = spec.units;
      describe_rows(layers, piece);
      break;
    case LayerKind::attention:
      costs.model_grains = spec.heads;
      costs.merge = OutputMerge::sum;
      break;
    case LayerKind::embedding:
      costs.model_grains = spec.vocabulary;
      costs.merge = OutputMerge::sum;
      break;
    case LayerKind::residual:
      describe_residual(*main, costs);
      break;
    default:
      break;
  }
}

SplitUnit split_unit(const SharedUnit& unit) {
  return {.operations = unit.operations,
          .weights = static_cast<double>(unit.parameters),
          .grains = unit.grains,
          .inputs = static_cast<double>(unit.inputs),
          .outputs = static_cast<double>(unit.outputs),
          .edges = static_cast<double>(unit.edges),
          .statistics = static_cast<double>(unit.statistics),
          .has_strips = unit.has_strips,
          .takes_strips = unit.takes_strips};
}

}  // namespace

std::vector<ModelPiece> model_pieces(const ModelSpec& model, const SampleShape& input) {
  Problems unsound;
  const ModelPlan plan = plan_model(model, input, unsound);
  check(unsound.empty(), "a model is sound before its layers are shared");
  const std::vector<LayerWork> work = layer_work(model, input);
  std::vector<ModelPiece> pieces;
  for (std::size_t i = 0; i < work.size(); ++i) {
    if (pieces.empty() || (work[i].parameters > 0 && pieces.back().costs.weights > 0)) {
      pieces.push_back({.first = i, .end = i});
      pieces.back().costs.may_begin_stage = i == 0 || work[i].may_begin_stage;
      pieces.back().costs.slices = slices_of_stage;
    }
    ModelPiece& piece = pieces.back();
    ++piece.end;
    for (const SharedUnit& unit : work[i].units) piece.costs.units.push_back(split_unit(unit));
    if (work[i].pair_grains > 0) piece.costs.pair_grains = work[i].pair_grains;
    if (piece.costs.weights == 0) piece.costs.begins_shared = work[i].begins_shared;
    piece.costs.operations += work[i].operations;
    piece.costs.weights += static_cast<double>(work[i].parameters);
  }
  for (ModelPiece& piece : pieces) describe(model, plan.layers, piece);
  return pieces;
}

}  // namespace gv
