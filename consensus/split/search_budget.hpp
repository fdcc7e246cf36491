// Limits the work of a search for plans without reading a clock.
#pragma once

#include <cstdint>
#include <limits>

namespace gv {

/// Counts the elementary steps of a search. A step takes about 10 ns on one core of an AMD EPYC
/// (Zen 4). Without a clock, a search ends at the same place on every machine, so a simulated run
/// repeats exactly.
class SearchBudget {
 public:
  explicit SearchBudget(std::uint64_t steps = std::numeric_limits<std::uint64_t>::max())
      : left_(steps) {}

  /// Takes `steps` steps from the budget. Returns false if fewer are left, and then in all later
  /// calls too.
  bool take(std::uint64_t steps) {
    if (steps > left_) is_spent_ = true;
    if (is_spent_) return false;
    left_ -= steps;
    taken_ += steps;
    return true;
  }

  /// A budget for a part of the work: this fraction of the steps left. Afterwards the caller must
  /// take() the part's taken() steps from this budget.
  SearchBudget part(double fraction) const {
    return SearchBudget(static_cast<std::uint64_t>(fraction * static_cast<double>(left())));
  }

  /// True if take() has failed, so that some work was left out.
  bool is_spent() const { return is_spent_; }
  std::uint64_t left() const { return is_spent_ ? 0 : left_; }
  std::uint64_t taken() const { return taken_; }

 private:
  std::uint64_t left_;
  std::uint64_t taken_ = 0;
  bool is_spent_ = false;
};

}  // namespace gv
