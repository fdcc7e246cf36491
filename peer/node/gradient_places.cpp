// Reads places from a model's layout and its list of dense layers.
#include "peer/node/gradient_places.hpp"

namespace gv {

std::vector<MatrixPlace> matrix_places(const Layout& layout) {
  std::vector<MatrixPlace> places;
  for (const TensorSlot& slot : layout.slots()) {
    if (slot.shape.size() < 2) continue;
    const std::size_t rows = slot.shape.front();
    places.push_back({slot.offset, rows, slot.size / rows});
  }
  return places;
}

std::vector<DensePlace> dense_places(const std::vector<DenseWeights>& layers) {
  std::vector<DensePlace> places;
  for (const DenseWeights& layer : layers) {
    places.push_back(
        {.place = {layer.offset, layer.outputs, layer.inputs}, .rows_per_sample = layer.rows});
  }
  return places;
}

}  // namespace gv
