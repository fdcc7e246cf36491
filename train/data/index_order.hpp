// The order in which a peer goes through a data set, computed without reading the samples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "train/data/permutation.hpp"

namespace gv {

/// Decides which samples a peer reads. All fields except `peer` are equal at all peers.
struct IndexRule {
  enum class Part {
    own,     ///< One of `peers` random parts, which are as equal in size as possible.
    all,     ///< All samples, in the peer's own order.
    common,  ///< All samples, in an order that all peers share. For leased data.
  };
  Part part = Part::own;
  std::uint64_t seed = 0;
  std::uint64_t peer = 0;   ///< Below `peers`.
  std::uint64_t peers = 1;  ///< At least 1.
};

/// Gives the sample index for each position. A position counts samples over all epochs, and each
/// epoch has a different order. An order is computed, not stored: the result is a pure function of
/// rule, size and position. The built-in learner, too, uses the common order for leased data (see
/// Sampler).
class IndexOrder {
 public:
  /// `samples`: the size of the whole data set, 1 to 2^62. The peer's part may be empty.
  IndexOrder(std::uint64_t samples, const IndexRule& rule);

  std::uint64_t samples() const { return samples_; }
  /// Number of samples that the peer reads in one epoch.
  std::uint64_t part() const { return part_; }
  /// The index of the sample at that position. The part must not be empty.
  std::uint64_t at(std::uint64_t position);

 private:
  std::uint64_t samples_;
  IndexRule rule_;
  std::uint64_t part_;
  std::optional<KeyedPermutation> parts_;  ///< Order of all samples. The peer's part is every n-th
                                           ///< of them, for n peers.
  std::optional<std::uint64_t> epoch_;
  std::optional<KeyedPermutation> order_;  ///< The order of `epoch_`.
};

}  // namespace gv
