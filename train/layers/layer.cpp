// Which class a layer kind is.
#include "train/layers/layer.hpp"

namespace gv {

template <class T>
std::unique_ptr<Layer<T>> make_layer(const LayerPlan& plan) {
  switch (plan.spec.kind) {
    case LayerKind::dense:
      return make_dense<T>(plan);
    case LayerKind::conv2d:
      return make_convolution<T>(plan);
    case LayerKind::max_pool:
    case LayerKind::avg_pool:
      return make_pool<T>(plan);
    case LayerKind::dropout:
      return make_dropout<T>(plan);
    case LayerKind::layer_norm:
    case LayerKind::group_norm:
      return make_normalisation<T>(plan);
    case LayerKind::embedding:
      return make_embedding<T>(plan);
    case LayerKind::attention:
      return make_attention<T>(plan);
    case LayerKind::residual:
      return make_residual<T>(plan);
    case LayerKind::flatten:
    case LayerKind::relu:
    case LayerKind::tanh:
    case LayerKind::gelu:
      return make_activation<T>(plan);
  }
  return nullptr;
}

template std::unique_ptr<Layer<float>> make_layer(const LayerPlan&);
template std::unique_ptr<Layer<double>> make_layer(const LayerPlan&);

}  // namespace gv
