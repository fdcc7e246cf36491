// Checks layers, losses and outputs against the samples.
#include "peer/config/model_problems.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "peer/config/batch_norm_problems.hpp"
#include "peer/config/cluster_problems.hpp"
#include "peer/config/config_settings.hpp"
#include "train/layers/plan.hpp"
#include "train/model.hpp"

namespace gv {
namespace {

/// The number of outputs of the model's last layer.
std::size_t outputs_of(const ModelSpec& model, const DataSet& data) {
  if (model.layers.empty()) return 0;
  const LayerSpec& last = model.layers.back();
  return last.kind == LayerKind::clusters ? data.features() : last.units;
}

/// Returns how many numbers a model computes for one sample; 0 if the model has problems.
std::size_t outputs_in_all(const ModelSpec& model, const DataSet& data) {
  Problems problems;
  const ModelPlan plan = plan_model(model, data.shape, problems);
  return problems.empty() ? plan.outputs : 0;
}

/// Returns the key to blame for problems with the layers of a model, if the config names the
/// model's kind instead of listing layers.
std::string key_of_model(const ModelConfig& config, ModelSpec model, const DataSet& data) {
  for (LayerSpec& layer : model.layers) layer.convolution = ConvolutionMethod::automatic;
  const bool is_size = !problems(model, data.shape, data.predictions).empty();
  return !is_size                                ? "model.convolution"
         : config.kind == ModelKind::mlp         ? "model.hidden"
         : config.kind == ModelKind::transformer ? "model.width"
                                                 : "model.kind";
}

/// Returns text that states how many outputs the last layer has. `outputs` is 0 if its kind does
/// not set their number.
std::string outputs_as_text(const LayerSpec& last, std::size_t outputs) {
  return outputs > 0 ? fmt::format("the last layer has {} outputs", outputs)
                     : fmt::format("the last layer is {}, which sets no number of outputs",
                                   layer_name(last));
}

std::string number_of_times(std::size_t count) {
  return count == 1 ? "once" : fmt::format("{} times", count);
}

/// Checks a loss that compares outputs with inputs.
Problems problems_of_reconstruction(const Config& config) {
  Problems found;
  const bool reconstructs = config.model.loss == LossKind::reconstruction;
  if (reconstructs && config.data.kind == DataKind::text) {
    found.push_back({"model.loss", "ids are names, and have no distance",
                     "use loss = \"cross_entropy\" for text"});
  }
  if (reconstructs && config.run.mode == ModeKind::pipeline) {
    found.push_back({"model.loss", "the last stage of a pipeline does not have the inputs",
                     "use another mode than \"pipeline\""});
  }
  return found;
}

}  // namespace

std::size_t outputs_of(const ModelConfig& model, const DataSet& data) {
  if (model.loss == LossKind::reconstruction) return data.features();
  return data.classes > 0 ? data.classes : data.target_width;
}

Problems problems_of(const Config& config, const ModelSpec& model, const DataSet& data) {
  Problems found = problems(model, data.shape, data.predictions);
  const bool layers_fit = found.empty();
  const bool by_list = config.model.kind == ModelKind::layers;
  for (Problem& problem : found) {
    problem.place = by_list ? "model." + problem.place : key_of_model(config.model, model, data);
  }
  std::ranges::move(problems_of_reconstruction(config), std::back_inserter(found));
  std::ranges::move(cluster_problems(config, model.layers), std::back_inserter(found));
  std::ranges::move(batch_norm_problems(config, model.layers), std::back_inserter(found));
  const bool reconstructs = config.model.loss == LossKind::reconstruction;
  const bool classification = data.classes > 0;
  if (!reconstructs && classification != takes_labels(config.model.loss)) {
    found.push_back(
        {"model.loss",
         classification ? "the data has labels, not targets" : "the data has targets, not labels",
         classification ? "use loss = \"cross_entropy\" or \"hinge\"" : "use loss = \"squared\""});
  }
  const LayerSpec first = model.layers.empty() ? LayerSpec{} : model.layers.front();
  if (first.kind == LayerKind::embedding && config.data.kind != DataKind::text) {
    found.push_back({"model.layers[0]", "the data is not made of ids",
                     "use kind = \"text\" below [data], or begin with another layer"});
  } else if (first.kind == LayerKind::embedding && first.vocabulary < data.classes) {
    found.push_back({"model.layers[0]", "there are more ids in the data",
                     fmt::format("set vocabulary = {}", data.classes)});
  }
  const std::size_t last = outputs_of(model, data);
  const std::size_t needed = outputs_of(config.model, data);
  // Spare outputs of a classifier, for classes that the data lack, only cost time. Every output of
  // a regression needs a target.
  const bool fits = classification && !reconstructs ? last >= needed : last == needed;
  const std::size_t all = outputs_in_all(model, data);
  if (by_list && !fits && !model.layers.empty()) {
    found.push_back(
        {"model.layers",
         fmt::format("{}, the data needs {}", outputs_as_text(model.layers.back(), last), needed),
         fmt::format("end with a dense layer of units = {}", needed)});
  } else if (all > last * data.predictions) {
    found.push_back(
        {"model.layers",
         fmt::format("the last layer gives its {} outputs {} times, and the data needs "
                     "them {}",
                     last, all / last, number_of_times(data.predictions)),
         fmt::format("end with a flatten layer and a dense layer of units = {}", needed)});
  } else if (layers_fit && all > 0 && all < last * data.predictions) {
    // A model with as many outputs as there are positions may look as if it made a prediction for
    // each position.
    found.push_back({by_list ? "model.layers" : "model.kind",
                     fmt::format("the last layer gives its {} outputs {}, and the data needs them "
                                 "at each of {} positions",
                                 last, number_of_times(all / last), data.predictions),
                     fmt::format("use kind = \"transformer\", or end with a dense layer of units = "
                                 "{} and per_position = true",
                                 needed)});
  }
  return found;
}

}  // namespace gv
