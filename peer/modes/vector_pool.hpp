// Large vectors of one size that are used again when nobody holds them any more.
#pragma once

#include <cstddef>
#include <memory>
#include <memory_resource>
#include <vector>

#include "base/floats.hpp"

namespace gv {

/// Grows to as many vectors as are in use at once; their values are what was left in them.
class VectorPool {
 public:
  using Vector = std::shared_ptr<Floats>;

  /// `memory` is not owned; it outlives all vectors.
  VectorPool(std::size_t size, std::pmr::memory_resource* memory) : size_(size), memory_(memory) {}

  /// Of every vector.
  std::size_t size() const { return size_; }

  /// One that only the caller holds, beside the pool. Whoever lends a vector to another thread
  /// keeps it as well until that thread has said that it is done.
  Vector blank() {
    for (const Vector& vector : vectors_) {
      if (vector.use_count() == 1) return vector;
    }
    return vectors_.emplace_back(std::make_shared<Floats>(size_, memory_));
  }

 private:
  std::size_t size_;
  std::pmr::memory_resource* memory_;
  std::vector<Vector> vectors_;
};

}  // namespace gv
