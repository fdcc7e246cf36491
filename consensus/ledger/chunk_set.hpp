// A set of chunk numbers, kept as ranges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "consensus/message/message.hpp"

namespace gv {

/// Needs memory for each gap and not for each chunk.
class ChunkSet {
 public:
  /// Adds the chunks from `begin` to before `end`.
  void add(std::uint64_t begin, std::uint64_t end);
  void remove(std::uint64_t begin, std::uint64_t end);

  bool contains(std::uint64_t chunk) const;
  /// The first chunk at or after `from` that is missing from the set, or that is in it.
  std::uint64_t first_missing(std::uint64_t from) const;
  std::uint64_t first_present(std::uint64_t from, std::uint64_t otherwise) const;
  /// Number of chunks in the set from `begin` to before `end`.
  std::uint64_t count(std::uint64_t begin, std::uint64_t end) const;

  /// Number of ranges.
  std::size_t size() const { return ends_.size(); }
  bool empty() const { return ends_.empty(); }
  /// The first ranges, at most `most` of them.
  std::vector<ChunkRange> ranges(std::size_t most) const;

  friend bool operator==(const ChunkSet&, const ChunkSet&) = default;

 private:
  std::map<std::uint64_t, std::uint64_t> ends_;  ///< End of each range by its begin. Ranges neither
                                                 ///< overlap nor touch.
};

}  // namespace gv
