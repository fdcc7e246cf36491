// Copies the parts of a gradient into place, in any order, and reports how much of the gradient is
// final.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>

#include "base/range.hpp"
#include "train/learner/layout.hpp"

namespace gv {

/// Consecutive elements of a gradient in a user's memory.
struct GradientPart {
  Range range;
  std::function<void(std::span<float> values)> read;  ///< Copies the elements to `values`.
};

/// A gradient that arrives in disjoint parts. An all-reduce sums a gradient from its last element
/// backwards, because the backward pass computes it in that order. So a part is ready once all
/// later elements have arrived, and the order of the parts only affects how early the sum begins.
/// Does no input or output.
class GradientParts {
 public:
  /// Collects the parts in `out`, and calls `ready`, if given, with each range that has become
  /// final. `out` and `ready` must outlive this object.
  GradientParts(std::span<float> out, const ReadyRange& ready)
      : out_(out), ready_(&ready), ready_from_(out.size()) {}

  /// Copies a part into place. Throws std::logic_error if the part does not fit or overlaps
  /// another.
  void take(const GradientPart& part);

  bool is_empty() const { return waiting_.empty() && ready_from_ == out_.size(); }
  /// All elements from this index on are ready.
  std::size_t ready_from() const { return ready_from_; }

 private:
  std::span<float> out_;
  const ReadyRange* ready_;
  std::size_t ready_from_;
  /// Parts that are not ready. Maps the end of each one to its beginning.
  std::map<std::size_t, std::size_t> waiting_;
};

}  // namespace gv
