// The named models.
#include "train/spec.hpp"

namespace gv {
namespace {

LayerSpec dense(std::size_t units) { return {.kind = LayerKind::dense, .units = units}; }

LayerSpec convolution(std::size_t units, std::size_t kernel, std::size_t padding) {
  return {.kind = LayerKind::conv2d, .units = units, .kernel = kernel, .padding = padding};
}

constexpr LayerSpec relu{.kind = LayerKind::relu};
constexpr LayerSpec halving_pool{.kind = LayerKind::max_pool, .kernel = 2};

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

}  // namespace gv
