// A set of chunk numbers, kept as ranges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "consensus/message/message.hpp"

namespace gv {

/// A set of chunk numbers. Its memory grows with the number of gaps, not of chunks.
class ChunkSet {
 public:
  /// Adds the chunks from `begin` up to but excluding `end`.
  void add(std::uint64_t begin, std::uint64_t end);
  void remove(std::uint64_t begin, std::uint64_t end);

  bool contains(std::uint64_t chunk) const;
  /// first_missing() returns the first chunk at or after `from` that is not in the set, and
  /// first_present() the first one that is in the set, or `otherwise` if there is none.
  std::uint64_t first_missing(std::uint64_t from) const;
  std::uint64_t first_present(std::uint64_t from, std::uint64_t otherwise) const;
  /// Number of chunks in the set from `begin` up to but excluding `end`.
  std::uint64_t count(std::uint64_t begin, std::uint64_t end) const;

  /// Number of ranges.
  std::size_t size() const { return ends_.size(); }
  bool empty() const { return ends_.empty(); }
  /// The first ranges, at most `most` of them.
  std::vector<ChunkRange> ranges(std::size_t most) const;

  friend bool operator==(const ChunkSet&, const ChunkSet&) = default;

 private:
  std::map<std::uint64_t, std::uint64_t>
      ends_;  ///< Maps the beginning of each range to its end. Ranges neither overlap nor touch.
};

}  // namespace gv
