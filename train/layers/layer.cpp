// Chooses the class for each kind of layer.
#include "train/layers/layer.hpp"

#include <tuple>
#include <type_traits>

namespace gv {
namespace {

LayerFamily family_of(LayerKind kind) {
  switch (kind) {
    case LayerKind::dense:
      return dense_layers();
    case LayerKind::conv2d:
      return convolution_layers();
    case LayerKind::max_pool:
    case LayerKind::avg_pool:
      return pool_layers();
    case LayerKind::dropout:
      return dropout_layers();
    case LayerKind::layer_norm:
    case LayerKind::group_norm:
    case LayerKind::batch_norm:
      return normalisation_layers();
    case LayerKind::embedding:
      return embedding_layers();
    case LayerKind::attention:
      return attention_layers();
    case LayerKind::lstm:
      return lstm_layers();
    case LayerKind::residual:
      return residual_layers();
    case LayerKind::stack:
      return stack_layers();
    case LayerKind::concat:
      return concat_layers();
    case LayerKind::clusters:
      return cluster_layers();
    case LayerKind::kernel_features:
      return kernel_feature_layers();
    case LayerKind::flatten:
    case LayerKind::relu:
    case LayerKind::tanh:
    case LayerKind::gelu:
      return activation_layers();
  }
  return {};
}

}  // namespace

template <class T>
std::unique_ptr<Layer<T>> make_layer(const LayerPlan& plan) {
  if constexpr (std::is_same_v<T, float>) {
    if (plan.precision == Precision::bf16) return make_rounded_layer(plan);
  }
  return std::get<LayerMaker<T>>(family_of(plan.spec.kind))(plan);
}

template std::unique_ptr<Layer<float>> make_layer(const LayerPlan&);
template std::unique_ptr<Layer<double>> make_layer(const LayerPlan&);

}  // namespace gv
