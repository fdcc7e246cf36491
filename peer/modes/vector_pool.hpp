// Large vectors that are reused once released.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <memory_resource>
#include <vector>

#include "base/floats.hpp"

namespace gv {

/// A pool that grows to the largest number of vectors in use at once. A reused vector keeps its
/// last values.
class VectorPool {
 public:
  using Vector = std::shared_ptr<Floats>;

  /// `memory` is not owned and must outlive all vectors.
  VectorPool(std::size_t size, std::pmr::memory_resource* memory) : size_(size), memory_(memory) {}

  /// The number of floats in each vector.
  std::size_t size() const { return size_; }

  /// Returns a vector that only the caller and the pool hold. A caller that shares the vector with
  /// another thread must hold the vector until that thread reports that it has finished.
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

/// A pool for each size of vector. The vectors are memory and not state, so all pools compare
/// equal, and a copy begins without vectors.
class VectorPools {
 public:
  /// `memory` is not owned and must outlive all vectors.
  explicit VectorPools(std::pmr::memory_resource* memory) : memory_(memory) {}
  VectorPools(const VectorPools& other) : memory_(other.memory_) {}
  VectorPools(VectorPools&&) noexcept = default;
  VectorPools& operator=(const VectorPools& other) { return *this = VectorPools(other); }
  VectorPools& operator=(VectorPools&&) noexcept = default;
  ~VectorPools() = default;

  /// Returns a vector of `size` floats (see VectorPool::blank).
  VectorPool::Vector blank(std::size_t size) {
    return pools_.try_emplace(size, size, memory_).first->second.blank();
  }
  /// Drops all pools. Vectors in use stay valid.
  void clear() { pools_.clear(); }

  friend bool operator==(const VectorPools&, const VectorPools&) { return true; }
  /// Adds nothing to a StateHash.
  void add_to(auto&) const {}

 private:
  std::pmr::memory_resource* memory_;
  std::map<std::size_t, VectorPool> pools_;
};

}  // namespace gv
