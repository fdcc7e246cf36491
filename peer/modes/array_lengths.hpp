// Finds the peers that have given an array of a different length, if peers average arrays.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "base/ids.hpp"

namespace gv {

/// All peers must give arrays of the same length to one call. The pieces of a longer or shorter
/// array do not fit the others' sum, so that sum never ends. A peer that gets such a piece tells
/// all others the length of its own array, and each peer that receives a length answers once with
/// its own. So every peer learns of a different length, even if its program makes the call later.
/// Pure.
class ArrayLengths {
 public:
  struct Unlike {
    PeerId peer{};
    std::uint64_t length = 0;
  };

  /// Notes the length that `from` reports for that call. Keeps one length for each peer.
  void note(PeerId from, std::uint64_t call, std::uint64_t length) { told_[from] = {call, length}; }
  /// True if we have to report our own length for that call: a peer has reported its length, or
  /// `has_unlike`, and we have not reported yet. The next answer is then false.
  bool must_tell(std::uint64_t call, bool has_unlike);
  /// The first peer whose array at that call does not have our `length`.
  std::optional<Unlike> unlike(std::uint64_t call, std::uint64_t length) const;

 private:
  struct Told {
    std::uint64_t call = 0;
    std::uint64_t length = 0;
  };

  std::map<PeerId, Told> told_;
  std::optional<std::uint64_t> told_at_;  ///< The newest call for which we reported our length.
};

}  // namespace gv
