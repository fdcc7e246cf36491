// Models latency, bandwidth and the cost of retransmission.
#include "sim/local/link_pace.hpp"

#include <algorithm>

namespace gv {
namespace {

constexpr Duration retransmission_first = std::chrono::milliseconds(200);
/// The largest number of losses of one segment. Together they delay the segment by 51 s.
constexpr std::uint32_t losses_max = 8;
constexpr Duration overtaken_for = std::chrono::milliseconds(10);

}  // namespace

SegmentFate LinkPace::send(Time now, std::size_t bytes, const LinkQuality& quality,
                           Time not_before) {
  SegmentFate fate;
  // Draw nothing for impossible events, so that one fault does not change the random numbers of
  // another.
  const auto happens = [this](double probability) {
    return probability > 0 && rng_.chance(probability);
  };
  Duration delay = quality.latency;
  if (quality.jitter > Duration{}) {
    delay += from_seconds(rng_.uniform() * seconds(quality.jitter));
  }
  Duration retransmission = retransmission_first;
  while (fate.losses < losses_max && happens(quality.loss)) {
    ++fate.losses;
    delay += retransmission;
    retransmission *= 2;
  }
  fate.duplicated = happens(quality.duplicate);
  fate.reordered = happens(quality.reorder);
  if (fate.reordered) delay += overtaken_for;
  if (bytes > 0 && happens(quality.corrupt)) {
    fate.damaged = rng_.below(bytes);
    fate.damage = static_cast<std::uint8_t>(1 + rng_.below(255));
  }
  Time sent = now;
  if (quality.bandwidth > 0) {
    const double copies = 1 + fate.losses + (fate.duplicated ? 1 : 0);
    const double bits = 8 * copies * static_cast<double>(bytes);
    free_at_ = later(std::max(free_at_, now), from_seconds(bits / (1e6 * quality.bandwidth)));
    sent = free_at_;
  }
  fate.due = std::max(later(sent, delay), not_before);
  return fate;
}

Duration LinkPace::backlog(Time now) const { return std::max(Duration{}, free_at_ - now); }

}  // namespace gv
