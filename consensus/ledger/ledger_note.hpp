// The part of the ledger of leased data that a checkpoint keeps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "consensus/message/message.hpp"

namespace gv {

/// A chunk that is not done and whose first `made` steps a model contains.
struct BegunChunk {
  std::uint64_t chunk = 0;
  std::uint64_t made = 0;

  friend bool operator==(const BegunChunk&, const BegunChunk&) = default;
};

/// The state of a ledger that belongs to a model and is kept in its checkpoint.
struct LedgerNote {
  std::uint64_t whole = 0;       ///< All chunks below this number are done.
  std::vector<ChunkRange> mine;  ///< Chunks that we have done and still report (LedgerEntry::done).
  std::vector<ChunkRange> done;  ///< Chunks that are done, by any peer.
  /// Chunks that only our model contains: trained ones, and the one that we have begun.
  std::vector<BegunChunk> begun;

  friend bool operator==(const LedgerNote&, const LedgerNote&) = default;
};

/// The most ranges in each list of a ledger's note. If there are more, the chunks in the ranges
/// left out are trained again after a restart.
inline constexpr std::size_t noted_ranges_max = 4096;

}  // namespace gv
