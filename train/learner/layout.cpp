// Places tensors one after another, and computes the hash that peers compare.
#include "train/learner/layout.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.hpp"
#include "base/rng.hpp"

namespace gv {

std::size_t Layout::add(std::string name, std::vector<std::size_t> shape) {
  const bool known = std::ranges::find(slots_, name, &TensorSlot::name) != slots_.end();
  check(!known, "a tensor's name is new in its layout");
  constexpr std::size_t size_max = std::numeric_limits<std::size_t>::max() / sizeof(float);
  std::size_t size = 1;
  for (const std::size_t side : shape) {
    check(side == 0 || size <= size_max / side, "the bytes of a tensor can be counted");
    size *= side;
  }
  check(size <= size_max - size_, "the bytes of a layout can be counted");
  slots_.push_back({std::move(name), std::move(shape), size_, size});
  size_ += size;
  return slots_.size() - 1;
}

std::uint64_t Layout::hash() const {
  std::uint64_t hash = slots_.size();
  for (const TensorSlot& slot : slots_) {
    hash = hash_combine(hash, stable_hash(slot.name));
    hash = hash_combine(hash, slot.shape.size());
    for (const std::size_t side : slot.shape) hash = hash_combine(hash, side);
  }
  return hash;
}

}  // namespace gv
