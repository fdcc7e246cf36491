// Finds out which peer has given an array of another length, where peers average arrays.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "base/ids.hpp"

namespace gv {

/// Arrays of one call are equally long at all peers. The pieces of a longer or shorter one do not
/// fit the sum of the others, so that sum never ends. A peer that gets such a piece tells all
/// others the length of its own array, and each that hears a length answers once with its own. So
/// every peer learns a length that is not its own, also one whose program makes the call later.
/// Pure.
class ArrayLengths {
 public:
  struct Unlike {
    PeerId peer{};
    std::uint64_t length = 0;
  };

  /// Notes the length that `from` says it has given to that call. Keeps one for each peer.
  void note(PeerId from, std::uint64_t call, std::uint64_t length) { told_[from] = {call, length}; }
  /// True if a peer has said the length of its array at that call, or `has_unlike`, and we have not
  /// said ours yet. Then we have to, and the next answer is false.
  bool must_tell(std::uint64_t call, bool has_unlike);
  /// The first peer whose array at that call is not of our `length`.
  std::optional<Unlike> unlike(std::uint64_t call, std::uint64_t length) const;

 private:
  struct Told {
    std::uint64_t call = 0;
    std::uint64_t length = 0;
  };

  std::map<PeerId, Told> told_;
  std::optional<std::uint64_t> told_at_;  ///< The call at which we said our own.
};

}  // namespace gv
