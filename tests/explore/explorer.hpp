// Explores all states of a small world depth first, and checks its laws in each state.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace gv::explore {

/// The resources that an exploration may use.
struct Limits {
  double seconds = 30;
  double memory_gib = 2;
};

/// How an exploration ended.
struct Report {
  std::size_t states = 0;   ///< Number of different states, told apart by their hashes.
  std::size_t moves = 0;    ///< Number of moves tried, including those to known states.
  std::size_t depth = 0;    ///< Number of moves on the longest path.
  std::size_t outside = 0;  ///< Number of moves that lead out of the world's bounds.
  bool exhausted = false;   ///< True if every state within the bounds was visited.
  double seconds = 0;
  std::string broken;            ///< The law that some state breaks; empty: none.
  std::vector<std::string> way;  ///< The moves that lead to the state that breaks the law.
};

/// The hashes of the states seen, in a table that takes eight to sixteen bytes for each state. Two
/// different states have the same hash with a probability of 2^-64, so among 10^8 states one is
/// missed with a probability of 0.0003.
class SeenStates {
 public:
  explicit SeenStates(double memory_gib)
      : slots_max_(
            std::max<std::size_t>(1 << 16, static_cast<std::size_t>(memory_gib * 0x1p30 / 12))) {
    slots_.resize(1 << 16);
  }

  /// Returns true if the state is new.
  bool insert(std::uint64_t hash) {
    if (hash == 0) hash = 1;
    if (4 * (count_ + 1) > 3 * slots_.size()) grow();
    std::uint64_t& slot = slot_of(hash);
    if (slot == hash) return false;
    slot = hash;
    ++count_;
    return true;
  }
  std::size_t size() const { return count_; }
  /// True if the next doubling would exceed the memory limit. Both tables exist during a doubling.
  bool is_full() const {
    return 4 * (count_ + 1) > 3 * slots_.size() && 2 * slots_.size() > slots_max_;
  }

 private:
  std::uint64_t& slot_of(std::uint64_t hash) {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = hash & mask;
    while (slots_[at] != 0 && slots_[at] != hash) at = (at + 1) & mask;
    return slots_[at];
  }
  void grow() {
    std::vector<std::uint64_t> old(2 * slots_.size());
    old.swap(slots_);
    for (const std::uint64_t hash : old) {
      if (hash != 0) slot_of(hash) = hash;
    }
  }

  std::size_t slots_max_;
  std::vector<std::uint64_t> slots_;
  std::size_t count_ = 0;
};

/// A World is a value with
///   moves()      all moves that may happen next
///   apply(move)  makes a move; the world may then be `is_outside()` of its bounds
///   broken()     the law that the world breaks, or an empty text
///   hash()       equal for equal states
///   text(move)   the move as text
template <class World>
Report explore(const World& start, const Limits& limits) {
  using Move = typename decltype(start.moves())::value_type;
  struct Step {
    World world;
    std::vector<Move> moves;
    std::size_t next = 0;
  };
  const auto began = std::chrono::steady_clock::now();
  const auto passed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  };
  Report report;
  SeenStates seen(limits.memory_gib);
  seen.insert(start.hash());
  std::vector<Step> path;
  path.push_back({start, start.moves()});
  bool in_time = true;
  while (!path.empty() && report.broken.empty()) {
    if (path.back().next == path.back().moves.size()) {
      path.pop_back();
      continue;
    }
    Step& here = path.back();
    World world = here.world;
    world.apply(here.moves[here.next++]);
    if (++report.moves % 1024 == 0) in_time = passed() < limits.seconds;
    if (!in_time || seen.is_full()) break;
    report.broken = world.broken();
    if (report.broken.empty() && world.is_outside()) {
      ++report.outside;
      continue;
    }
    if (report.broken.empty() && !seen.insert(world.hash())) continue;
    std::vector<Move> moves = world.moves();
    path.push_back({std::move(world), std::move(moves)});
    report.depth = std::max(report.depth, path.size() - 1);
  }
  report.exhausted = path.empty();
  report.states = seen.size();
  report.seconds = passed();
  for (std::size_t i = 0; !report.broken.empty() && i + 1 < path.size(); ++i) {
    report.way.push_back(path[i].world.text(path[i].moves[path[i].next - 1]));
  }
  return report;
}

}  // namespace gv::explore
