// Smooths the times of passes in each stage, and derives a peer's speed from them.
#include "peer/modes/stage_pace.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace gv {
namespace {

constexpr double passes = 100;
constexpr double window_s = 1;

}  // namespace

bool StagePace::Pace::is_known() const { return busy_s >= window_s / 2; }

void StagePace::carry(const std::set<std::uint32_t>& stages) {
  std::erase_if(paces_, [&](const auto& entry) {
    const bool is_new = stages.contains(entry.first) && !carried_.contains(entry.first);
    return is_new || (!stages.contains(entry.first) && !entry.second.is_known());
  });
  carried_ = stages;
}

StagePace::Present StagePace::present() const {
  Present present;
  for (const auto& [stage, pace] : paces_) {
    if (!carried_.contains(stage) || !pace.is_known()) continue;
    present.speed += pace.speed();
    ++present.stages;
  }
  if (present.stages > 0) present.speed /= static_cast<double>(present.stages);
  return present;
}

void StagePace::add(std::uint32_t stage, double work_s, double busy_s) {
  check(carried_.contains(stage), "a pass is measured in a stage that the peer carries");
  const Present before = present();
  const double keep = 1 - std::min(1 / passes, busy_s / window_s);
  Pace& pace = paces_[stage];
  pace.work_s = keep * pace.work_s + work_s;
  pace.busy_s = keep * pace.busy_s + busy_s;
  const Present after = present();
  double sum = 0;
  std::size_t known = 0;
  for (auto& [other, each] : paces_) {
    const bool follows = !carried_.contains(other) && before.stages > 0;
    if (follows && before.stages == after.stages) each.work_s *= after.speed / before.speed;
    if (!each.is_known()) continue;
    sum += each.speed();
    ++known;
  }
  if (known > 0) speed_ = sum / static_cast<double>(known);
}

}  // namespace gv
