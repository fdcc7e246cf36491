// Finds peers whose arrays differ in length from ours, when peers average arrays.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "base/ids.hpp"

namespace gv {

/// Detects arrays of different lengths. All peers must pass arrays of the same length to one call.
/// Pieces of a longer or shorter array do not fit the others' sum, which therefore never ends. A
/// peer that gets such a piece tells all others the length of its own array, and each peer that
/// receives a length answers once with its own. So every peer finds out that the lengths differ,
/// even if its program makes the call later. Pure.
class ArrayLengths {
 public:
  struct Unlike {
    PeerId peer{};
    std::uint64_t length = 0;
  };

  /// Records the length that `from` reports for this call. Keeps only the newest report of each
  /// peer.
  void note(PeerId from, std::uint64_t call, std::uint64_t length) { told_[from] = {call, length}; }
  /// True, once per call, if we have to report our own length, because a peer has reported its own,
  /// or because a piece of an array of a different length has arrived (`has_unlike`).
  bool must_tell(std::uint64_t call, bool has_unlike);
  /// Returns the first peer whose array in this call has a length other than `length`.
  std::optional<Unlike> unlike(std::uint64_t call, std::uint64_t length) const;

 private:
  struct Told {
    std::uint64_t call = 0;
    std::uint64_t length = 0;
  };

  std::map<PeerId, Told> told_;
  /// The newest call for which we have reported the length of our array.
  std::optional<std::uint64_t> told_at_;
};

}  // namespace gv
