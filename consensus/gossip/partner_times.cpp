// Computes the median time of recent exchanges, and how long slow partners rest.
#include "consensus/gossip/partner_times.hpp"

#include <algorithm>
#include <vector>

namespace gv {
namespace {

constexpr std::size_t recent_min = 3;  ///< With fewer recent exchanges, there is no usual time.

}  // namespace

/// The median time of exchanges with other partners; Duration::max() if there are too few.
Duration PartnerTimes::usual_without(PeerId partner) const {
  std::vector<Duration> others;
  for (const auto& [peer, took] : recent_) {
    if (peer != partner) others.push_back(took);
  }
  if (others.size() < recent_min) return Duration::max();
  const auto middle = others.begin() + static_cast<std::ptrdiff_t>(others.size() / 2);
  std::ranges::nth_element(others, middle);
  return *middle;
}

void PartnerTimes::note(Time now, PeerId partner, Time began) {
  const Duration took = now - began;
  recent_.emplace_back(partner, took);
  if (recent_.size() > recent_max) recent_.pop_front();
  std::erase_if(resting_until_, [now](const auto& entry) { return entry.second <= now; });
  if (took <= never_slow || seconds(took) <= slow_factor * seconds(usual_without(partner))) return;
  rest(now, partner, took);
}

void PartnerTimes::note_hanging(Time now, PeerId partner, Time began) {
  rest(now, partner, now - began);
}

void PartnerTimes::note_unanswered(Time now, PeerId partner, Time began) {
  note(now, partner, began);
  Time& until = resting_until_[partner];
  until = std::max(until, now + std::min(rest_max, now - began));
}

void PartnerTimes::rest(Time now, PeerId partner, Duration took) {
  const double rest = std::min(seconds(rest_max), seconds(took) * (1 / share - 1));
  resting_until_[partner] = now + from_seconds(rest);
}

bool PartnerTimes::is_resting(Time now, PeerId partner) const {
  const auto found = resting_until_.find(partner);
  return found != resting_until_.end() && now < found->second;
}

}  // namespace gv
