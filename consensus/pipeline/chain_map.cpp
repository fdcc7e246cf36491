// Maps stages to peers: keeps present carriers, fills gaps, places newcomers, and then makes at
// most one change for balance.
#include "consensus/pipeline/chain_map.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include "base/check.hpp"
#include "base/shares.hpp"

namespace gv {
namespace {

class Mapping {
 public:
  Mapping(std::span<const StageCarrier> carriers, std::span<const double> stage_seconds,
          std::span<const std::size_t> least)
      : carriers_(carriers), seconds_(stage_seconds), least_(least) {
    for (const StageCarrier& carrier : carriers) {
      speeds_.push_back(carrier.speed);
      stages_of_.emplace_back();
      for (const std::uint32_t stage : carrier.stages) {
        if (stage < seconds_.size()) stages_of_.back().push_back(stage);
      }
    }
    speeds_ = known_speeds(speeds_);
  }

  std::vector<std::vector<std::uint32_t>> map(bool balances) {
    for (std::size_t i = 0; i < stages_of_.size(); ++i) keep_pin(i, balances);
    for (std::uint32_t stage = 0; stage < seconds_.size(); ++stage) {
      if (carriers_of(stage) == 0) fill(stage);
    }
    for (std::size_t i = 0; i < stages_of_.size(); ++i) {
      if (stages_of_[i].empty()) place(i);
    }
    for (std::uint32_t stage = 0; stage < seconds_.size(); ++stage) complete(stage);
    if (balances) balance();
    for (auto& stages : stages_of_) std::ranges::sort(stages);
    return std::move(stages_of_);
  }

 private:
  bool carries(std::size_t i, std::uint32_t stage) const {
    return std::ranges::find(stages_of_[i], stage) != stages_of_[i].end();
  }

  std::size_t carriers_of(std::uint32_t stage) const {
    std::size_t count = 0;
    for (std::size_t i = 0; i < stages_of_.size(); ++i) count += carries(i, stage);
    return count;
  }

  /// Number of carriers that the stage needs.
  std::size_t need(std::uint32_t stage) const { return least_.empty() ? 1 : least_[stage]; }

  /// Seconds per micro-batch in this stage, shared by its carriers. A carrier of several stages
  /// divides its speed among them.
  double load(std::uint32_t stage) const {
    double speed = 0;
    for (std::size_t i = 0; i < stages_of_.size(); ++i) {
      if (carries(i, stage)) speed += speeds_[i] / static_cast<double>(stages_of_[i].size());
    }
    return speed > 0 ? seconds_[stage] / speed : std::numeric_limits<double>::infinity();
  }

  double slowest_load() const {
    double slowest = 0;
    for (std::uint32_t stage = 0; stage < seconds_.size(); ++stage) {
      slowest = std::max(slowest, load(stage));
    }
    return slowest;
  }

  std::uint32_t slowest_stage() const {
    std::uint32_t slowest = 0;
    for (std::uint32_t stage = 1; stage < seconds_.size(); ++stage) {
      if (load(stage) > load(slowest)) slowest = stage;
    }
    return slowest;
  }

  /// Gives a pinned peer its stage. If it did not carry that stage, it gives up all others. A
  /// second peer that carries the pinned stage among several stages then gives up the pinned stage.
  /// If the pinned peer already carried its stage, the second peer gives it up only with
  /// `balances`, because a plan may want several carriers.
  void keep_pin(std::size_t i, bool balances) {
    const std::optional<std::uint32_t> stage = carriers_[i].pin;
    if (!stage || *stage >= seconds_.size() || (!balances && carries(i, *stage))) return;
    if (!carries(i, *stage)) stages_of_[i] = {*stage};
    const auto fullest = fullest_of([&](std::size_t other) {
      return other != i && carries(other, *stage) && carriers_[other].pin != stage;
    });
    if (fullest) std::erase(stages_of_[*fullest], *stage);
  }

  /// The busiest peer that has several stages and for which `may_yield` is true. Returns nullopt if
  /// there is none.
  template <class MayYield>
  std::optional<std::size_t> fullest_of(const MayYield& may_yield) const {
    const auto work = [this](std::size_t peer) {
      double sum = 0;
      for (const std::uint32_t stage : stages_of_[peer]) sum += seconds_[stage];
      return sum / speeds_[peer];
    };
    std::optional<std::size_t> fullest;
    for (std::size_t i = 0; i < stages_of_.size(); ++i) {
      if (stages_of_[i].size() < 2 || !may_yield(i)) continue;
      if (!fullest || work(i) > work(*fullest)) fullest = i;
    }
    return fullest;
  }

  /// The peer whose move to `stage` leaves the slowest stage with the smallest load. Returns
  /// nullopt if no stage has more carriers than it needs.
  std::optional<std::size_t> best_move(std::uint32_t stage) {
    std::optional<std::size_t> best;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < stages_of_.size(); ++i) {
      const bool is_spare = !carriers_[i].pin && stages_of_[i].size() == 1 && !carries(i, stage) &&
                            carriers_of(stages_of_[i].front()) > need(stages_of_[i].front());
      if (!is_spare) continue;
      const std::uint32_t before = std::exchange(stages_of_[i].front(), stage);
      // While some stage has no carrier, all loads are infinite, so the first peer is taken.
      const double load = slowest_load();
      if (!best || load < least) {
        best = i;
        least = load;
      }
      stages_of_[i].front() = before;
    }
    return best;
  }

  void fill(std::uint32_t stage) {
    for (auto& stages : stages_of_) {
      if (!stages.empty()) continue;
      stages.push_back(stage);
      return;
    }
    if (const auto spare = best_move(stage)) {
      stages_of_[*spare].front() = stage;
      return;
    }
    std::size_t best = 0;
    for (std::size_t i = 1; i < stages_of_.size(); ++i) {
      if (suits(i, stage) > suits(best, stage)) best = i;
    }
    stages_of_[best].push_back(stage);
  }

  /// How well a peer could carry a stage in addition to its own: whether it has a copy, whether it
  /// carries a neighbouring stage, and how little load it has.
  std::tuple<bool, bool, double> suits(std::size_t i, std::uint32_t stage) const {
    const auto& copies = carriers_[i].copies;
    const bool has_copy = std::ranges::find(copies, stage) != copies.end();
    const bool is_next = carries(i, stage + 1) || (stage > 0 && carries(i, stage - 1));
    double work = seconds_[stage];
    for (const std::uint32_t own : stages_of_[i]) work += seconds_[own];
    return {has_copy, is_next, -work / speeds_[i]};
  }

  /// The first stage with fewer carriers than it needs; nullopt if there is none.
  std::optional<std::uint32_t> incomplete_stage() const {
    for (std::uint32_t stage = 0; stage < seconds_.size(); ++stage) {
      if (carriers_of(stage) < need(stage)) return stage;
    }
    return std::nullopt;
  }

  /// Moves carriers to the stage until it has as many as it needs, as long as other stages can
  /// spare some.
  void complete(std::uint32_t stage) {
    while (carriers_of(stage) < need(stage)) {
      const auto spare = best_move(stage);
      if (!spare) return;
      stages_of_[*spare].front() = stage;
    }
  }

  void place(std::size_t newcomer) {
    const auto fullest = fullest_of([](std::size_t) { return true; });
    if (!fullest) {
      stages_of_[newcomer].push_back(incomplete_stage().value_or(slowest_stage()));
      return;
    }
    std::vector<std::uint32_t>& stages = stages_of_[*fullest];
    const bool is_own = carriers_[*fullest].pin == stages.back();
    const auto given = stages.end() - (is_own ? 2 : 1);
    stages_of_[newcomer].push_back(*given);
    stages.erase(given);
  }

  /// Finds the two peers whose swap leaves the slowest stage with the smallest load. One of them
  /// carries the stage `slowest`. Each carries only one stage and is not pinned. Returns nullopt if
  /// there are no two such peers.
  std::optional<std::pair<std::size_t, std::size_t>> best_exchange(std::uint32_t slowest) {
    std::optional<std::pair<std::size_t, std::size_t>> best;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < stages_of_.size(); ++i) {
      if (carriers_[i].pin || stages_of_[i].size() != 1 || !carries(i, slowest)) continue;
      for (std::size_t j = 0; j < stages_of_.size(); ++j) {
        if (carriers_[j].pin || stages_of_[j].size() != 1 || carries(j, slowest)) continue;
        std::swap(stages_of_[i], stages_of_[j]);
        const double load = slowest_load();
        std::swap(stages_of_[i], stages_of_[j]);
        if (load >= least) continue;
        best = {i, j};
        least = load;
      }
    }
    return best;
  }

  /// Moves one peer to the slowest stage or, if that gains more, swaps the stages of two peers.
  void balance() {
    const std::uint32_t slowest = slowest_stage();
    const double enough = (1 - worth_changing) * slowest_load();
    const auto before = stages_of_;
    auto best = before;
    double least = enough;
    const auto consider = [&] {
      if (const double load = slowest_load(); load < least) {
        best = stages_of_;
        least = load;
      }
      stages_of_ = before;
    };
    if (const auto mover = best_move(slowest)) {
      stages_of_[*mover].front() = slowest;
      consider();
    }
    if (const auto pair = best_exchange(slowest)) {
      std::swap(stages_of_[pair->first], stages_of_[pair->second]);
      consider();
    }
    stages_of_ = std::move(best);
  }

  std::span<const StageCarrier> carriers_;
  std::span<const double> seconds_;
  std::span<const std::size_t> least_;
  std::vector<double> speeds_;
  std::vector<std::vector<std::uint32_t>> stages_of_;
};

}  // namespace

std::vector<std::vector<std::uint32_t>> map_stages(std::span<const StageCarrier> carriers,
                                                   std::span<const double> stage_seconds,
                                                   bool balances,
                                                   std::span<const std::size_t> least) {
  check(!carriers.empty() && !stage_seconds.empty(), "stages are mapped to peers that are there");
  check(least.empty() || least.size() == stage_seconds.size(), "every stage may need carriers");
  return Mapping(carriers, stage_seconds, least).map(balances);
}

}  // namespace gv
