// Visits the elements of a tensor in the order of an odometer: the last index changes fastest.
#include "train/formats/strided.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/printable.hpp"

namespace gv {

std::string gather(std::span<const float> storage, std::uint64_t offset,
                   std::span<const std::uint64_t> strides, Tensor& tensor) {
  std::size_t elements = 1;
  for (const std::size_t side : tensor.shape) elements *= side;
  tensor.values.resize(elements);
  std::vector<std::size_t> index(tensor.shape.size());
  std::uint64_t at = offset;
  for (float& value : tensor.values) {
    value = storage[at];
    for (std::size_t d = index.size(); d-- > 0;) {
      at += strides[d];
      if (++index[d] < tensor.shape[d]) break;
      at -= strides[d] * tensor.shape[d];
      index[d] = 0;
    }
  }
  const bool is_finite =
      std::ranges::all_of(tensor.values, [](float value) { return std::isfinite(value); });
  if (is_finite) return {};
  return "tensor '" + printable(tensor.name, 200) + "' holds values that are not finite" +
         (tensor.type == NumberType::f64 ? ", or too large for a float32" : "");
}

}  // namespace gv
