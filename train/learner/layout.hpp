// The place of each tensor in a model's flat float32 vector. With such a layout, consensus code
// need not know about layers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace gv {

/// One named tensor inside the flat parameter vector.
struct TensorSlot {
  std::string name;                ///< Unique name in the layout, for example "dense1.weight".
  std::vector<std::size_t> shape;  ///< Row-major dimensions, outermost first.
  std::size_t offset = 0;          ///< First element in the flat vector.
  std::size_t size = 0;            ///< Number of elements: the product of `shape`.

  friend bool operator==(const TensorSlot&, const TensorSlot&) = default;
};

/// The tensors of a model in flat order, without gaps.
class Layout {
 public:
  /// Appends a tensor after the last one and returns its slot's index. The name must be new,
  /// and the bytes of the whole layout must be a number of 64 bits.
  std::size_t add(std::string name, std::vector<std::size_t> shape);

  const std::vector<TensorSlot>& slots() const { return slots_; }

  /// Number of floats in the flat vector.
  std::size_t size() const { return size_; }

  /// Equal for layouts with equal names, shapes and order. Peers compare it before they exchange
  /// models.
  std::uint64_t hash() const;

  friend bool operator==(const Layout&, const Layout&) = default;

 private:
  std::vector<TensorSlot> slots_;
  std::size_t size_ = 0;
};

/// The place of a dense layer's weights in the flat vector, and their sizes.
struct DenseWeights {
  std::size_t offset = 0;
  std::size_t outputs = 0;
  std::size_t inputs = 0;
  std::size_t rows = 1;  ///< Number of rows of inputs in each sample.
};

/// Called when elements [begin, end) of a flat gradient are final, while others are still being
/// computed. The ranges of one pass go from the vector's end to its beginning. Each ends where the
/// previous one began, and together they cover the whole vector. The computing thread makes the
/// call between two layers; it waits until the call returns, and blocks signals meanwhile.
using ReadyRange = std::function<void(std::size_t begin, std::size_t end)>;

}  // namespace gv
