// Computes the median time of recent exchanges, and how long slow partners rest.
#include "consensus/gossip/partner_times.hpp"

#include <algorithm>
#include <vector>

namespace gv {
namespace {

constexpr std::size_t recent_min = 3;  ///< With fewer recent exchanges, there is no usual time.

/// How long a partner has to rest so that `took` is its share of our time.
Duration pause_for(Duration took) {
  return from_seconds(seconds(took) * (1 / PartnerTimes::share - 1));
}

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

bool PartnerTimes::is_slow(PeerId partner, Duration took) const {
  return took > never_slow && seconds(took) > slow_factor * seconds(usual_without(partner));
}

void PartnerTimes::note(Time now, PeerId partner, Time began) {
  const Duration took = now - began;
  recent_.emplace_back(partner, took);
  if (recent_.size() > recent_max) recent_.pop_front();
  std::erase_if(slow_, [now](const auto& entry) {
    return std::max(entry.second.rests_until, entry.second.owes_until) <= now;
  });
  if (is_slow(partner, took)) rest(now, partner, took);
}

void PartnerTimes::note_aborted(Time now, PeerId partner, Time began) {
  if (is_slow(partner, now - began)) rest(now, partner, now - began);
}

void PartnerTimes::note_hanging(Time now, PeerId partner, Time began) {
  rest(now, partner, now - began);
}

void PartnerTimes::note_unanswered(Time now, PeerId partner, Time began) {
  note(now, partner, began);
  Time& until = slow_[partner].rests_until;
  until = std::max(until, now + std::min(first_rest_max, now - began));
}

void PartnerTimes::rest(Time now, PeerId partner, Duration took) {
  // A single exchange uses up no more than the grace, because this machine may have been asleep.
  const Duration counted = std::min(took, grace);
  const Duration pause = pause_for(counted);
  const Time grace_ends = now + pause_for(grace);
  Slow& slow = slow_[partner];
  // The time of the exchange itself pays for nothing.
  const Time owed = std::max(slow.owes_until + counted, now) + pause;
  slow.owes_until = std::min(owed, grace_ends + rest_max);
  slow.rests_until = now + std::max(std::min(first_rest_max, pause), slow.owes_until - grace_ends);
}

bool PartnerTimes::is_resting(Time now, PeerId partner) const {
  const auto found = slow_.find(partner);
  return found != slow_.end() && now < found->second.rests_until;
}

Time PartnerTimes::give_up_at(Time now, PeerId partner) const {
  const Duration usual = usual_without(partner);
  if (usual == Duration::max()) return never;
  return now + std::max(exchange_least, from_seconds(exchange_factor * seconds(usual)));
}

}  // namespace gv
