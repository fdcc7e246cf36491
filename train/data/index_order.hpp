// The order in which a peer goes through a data set of which only the size is known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "train/data/permutation.hpp"

namespace gv {

/// Which samples a peer reads. The same rule at all peers, but for `peer`.
struct IndexRule {
  enum class Part {
    own,     ///< One of `peers` parts, which are drawn at random and as equal as they can be.
    all,     ///< All samples, in an order of the peer's own.
    common,  ///< All samples, in an order that all peers share: for leased data.
  };
  Part part = Part::own;
  std::uint64_t seed = 0;
  std::uint64_t peer = 0;   ///< Below `peers`.
  std::uint64_t peers = 1;  ///< At least 1.
};

/// Indices by position. A position counts samples over all epochs, and each epoch has an order of
/// its own. Orders are computed and not stored, and are a pure function of rule, size and position.
/// The common order is that of leased data in the built-in learner (Sampler).
class IndexOrder {
 public:
  /// `samples`: of the whole data set, 1 to 2^62. The peer's part may be empty.
  IndexOrder(std::uint64_t samples, const IndexRule& rule);

  std::uint64_t samples() const { return samples_; }
  /// Samples of an epoch.
  std::uint64_t part() const { return part_; }
  /// The index of the sample at that position. The part is not empty.
  std::uint64_t at(std::uint64_t position);

 private:
  std::uint64_t samples_;
  IndexRule rule_;
  std::uint64_t part_;
  std::optional<KeyedPermutation> parts_;  ///< Of all samples; the peer's part is every n-th.
  std::optional<std::uint64_t> epoch_;
  std::optional<KeyedPermutation> order_;  ///< Of `epoch_`.
};

}  // namespace gv
