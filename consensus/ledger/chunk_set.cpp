// Implements sets of chunks by joining and cutting ranges.
#include "consensus/ledger/chunk_set.hpp"

#include <algorithm>
#include <iterator>

namespace gv {

void ChunkSet::add(std::uint64_t begin, std::uint64_t end) {
  if (begin >= end) return;
  auto next = ends_.upper_bound(begin);
  if (next != ends_.begin()) {
    const auto before = std::prev(next);
    if (before->second >= begin) {
      begin = before->first;
      end = std::max(end, before->second);
      next = ends_.erase(before);
    }
  }
  while (next != ends_.end() && next->first <= end) {
    end = std::max(end, next->second);
    next = ends_.erase(next);
  }
  ends_.emplace_hint(next, begin, end);
}

void ChunkSet::remove(std::uint64_t begin, std::uint64_t end) {
  if (begin >= end) return;
  auto next = ends_.lower_bound(begin);
  if (next != ends_.begin()) {
    const auto before = std::prev(next);
    const std::uint64_t before_end = before->second;
    if (before_end > begin) {
      before->second = begin;
      if (before_end > end) ends_.emplace_hint(next, end, before_end);
    }
  }
  while (next != ends_.end() && next->first < end) {
    const std::uint64_t next_end = next->second;
    next = ends_.erase(next);
    if (next_end > end) ends_.emplace_hint(next, end, next_end);
  }
}

bool ChunkSet::contains(std::uint64_t chunk) const {
  const auto next = ends_.upper_bound(chunk);
  return next != ends_.begin() && std::prev(next)->second > chunk;
}

std::uint64_t ChunkSet::first_missing(std::uint64_t from) const {
  const auto next = ends_.upper_bound(from);
  return next == ends_.begin() ? from : std::max(from, std::prev(next)->second);
}

std::uint64_t ChunkSet::first_present(std::uint64_t from, std::uint64_t otherwise) const {
  if (contains(from)) return from;
  const auto next = ends_.lower_bound(from);
  return next == ends_.end() ? otherwise : next->first;
}

std::uint64_t ChunkSet::count(std::uint64_t begin, std::uint64_t end) const {
  std::uint64_t sum = 0;
  auto range = ends_.upper_bound(begin);
  if (range != ends_.begin()) --range;
  for (; range != ends_.end() && range->first < end; ++range) {
    const std::uint64_t from = std::max(range->first, begin);
    const std::uint64_t to = std::min(range->second, end);
    if (from < to) sum += to - from;
  }
  return sum;
}

std::vector<ChunkRange> ChunkSet::ranges(std::size_t most) const {
  std::vector<ChunkRange> first;
  for (const auto& [begin, end] : ends_) {
    if (first.size() == most) break;
    first.push_back({begin, end - begin});
  }
  return first;
}

}  // namespace gv
