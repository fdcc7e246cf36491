// Builds the models that have a name.
#include "train/spec.hpp"

namespace gv {
namespace {

LayerSpec dense(std::size_t units) { return {.kind = LayerKind::dense, .units = units}; }

LayerSpec convolution(std::size_t units, std::size_t kernel, std::size_t padding) {
  return {.kind = LayerKind::conv2d, .units = units, .kernel = kernel, .padding = padding};
}

const LayerSpec relu{.kind = LayerKind::relu};
const LayerSpec halving_pool{.kind = LayerKind::max_pool, .kernel = 2};

}  // namespace

ModelSpec mlp(const std::vector<std::size_t>& hidden, std::size_t outputs) {
  ModelSpec spec;
  for (const std::size_t width : hidden) {
    spec.layers.push_back(dense(width));
    spec.layers.push_back(relu);
  }
  spec.layers.push_back(dense(outputs));
  return spec;
}

ModelSpec lenet(std::size_t outputs) {
  return {.layers = {convolution(6, 5, 2), relu, halving_pool, convolution(16, 5, 0), relu,
                     halving_pool, dense(120), relu, dense(84), relu, dense(outputs)}};
}

ModelSpec cnn(std::size_t outputs) {
  return {.layers = {convolution(32, 3, 1), relu, convolution(64, 3, 1), relu, halving_pool,
                     dense(128), relu, dense(outputs)}};
}

ModelSpec linear(std::size_t outputs) { return {.layers = {dense(outputs)}}; }

ModelSpec transformer(const TransformerSpec& spec, std::size_t vocabulary) {
  const auto row_dense = [](std::size_t units, bool tied = false) {
    return LayerSpec{.kind = LayerKind::dense, .units = units, .per_position = true, .tied = tied};
  };
  const LayerSpec norm{.kind = LayerKind::layer_norm, .per_position = true};
  const LayerSpec attention{.kind = LayerKind::attention, .heads = spec.heads};
  const LayerSpec gelu{.kind = LayerKind::gelu};
  ModelSpec model{
      .layers = {{.kind = LayerKind::embedding, .units = spec.width, .vocabulary = vocabulary}},
      .initial_deviation = 0.02};
  for (std::size_t i = 0; i < spec.blocks; ++i) {
    model.layers.push_back({.kind = LayerKind::residual, .layers = {norm, attention}});
    model.layers.push_back(
        {.kind = LayerKind::residual,
         .layers = {norm, row_dense(4 * spec.width), gelu, row_dense(spec.width)}});
  }
  model.layers.push_back(norm);
  model.layers.push_back(row_dense(vocabulary, spec.tied));
  return model;
}

}  // namespace gv
