// Models a link's queue, delay and faults.
#include "sim/virtual/link.hpp"

#include <algorithm>

namespace gv {

Passage Link::pass(Time now, std::size_t bytes, Rng& rng) {
  Passage passage;
  const LinkQuality& quality = state.quality;
  const Time begins = std::max(now, free_at_);
  Duration carrying{};
  if (quality.bandwidth > 0) {
    carrying = from_seconds(static_cast<double>(bytes) * 8 / (quality.bandwidth * 1e6));
  }
  free_at_ = later(begins, carrying);
  passage.sent = free_at_;
  if (state.cut) return passage;
  // Draw only for faults that the link has, so that worlds without faults do not depend on these
  // draws.
  if (quality.loss > 0 && rng.chance(quality.loss)) return passage;
  if (quality.corrupt > 0 && rng.chance(quality.corrupt)) {
    passage.damaged = true;
    return passage;
  }
  const auto travel = [&] {
    Duration time = quality.latency;
    if (quality.jitter > Duration{}) time += from_seconds(rng.uniform() * seconds(quality.jitter));
    return std::max(later(free_at_, time), state.clogged_until.value_or(now));
  };
  passage.copies = quality.duplicate > 0 && rng.chance(quality.duplicate) ? 2 : 1;
  for (int copy = 0; copy < passage.copies; ++copy) {
    Time& arrival = passage.arrivals[static_cast<std::size_t>(copy)];
    arrival = travel();
    if (quality.reorder > 0 && rng.chance(quality.reorder)) {
      const double most = 4 * seconds(quality.latency) + 0.010;
      arrival = later(arrival, from_seconds(rng.uniform() * most));
    } else {
      arrival = std::max(arrival, last_arrival_);
      last_arrival_ = arrival;
    }
  }
  return passage;
}

}  // namespace gv
