// Deals samples one by one, each to the peer that would finish it first.
#include "base/shares.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <iterator>
#include <queue>
#include <utility>

#include "base/check.hpp"

namespace gv {
namespace {

/// The speeds, with the median in place of unmeasured ones. The median of an even count is the
/// lower of the two middle values.
std::vector<double> known_speeds(std::span<const double> samples_per_second) {
  const auto is_measured = [](double speed) { return std::isfinite(speed) && speed > 0; };
  std::vector<double> measured;
  std::ranges::copy_if(samples_per_second, std::back_inserter(measured), is_measured);
  std::ranges::sort(measured);
  const double median = measured.empty() ? 1 : measured[(measured.size() - 1) / 2];
  std::vector<double> speeds(samples_per_second.begin(), samples_per_second.end());
  for (double& speed : speeds) speed = is_measured(speed) ? speed : median;
  return speeds;
}

}  // namespace

std::vector<std::uint32_t> batch_shares(std::span<const double> samples_per_second,
                                        std::uint32_t total, std::uint32_t most,
                                        std::uint32_t least) {
  const std::size_t peers = samples_per_second.size();
  check(least >= 1 && std::uint64_t{least} * peers <= total && total <= std::uint64_t{most} * peers,
        "a batch can be shared");
  const std::vector<double> speeds = known_speeds(samples_per_second);
  std::vector<std::uint32_t> shares(peers, least);

  // The time at which a peer would finish one more sample, and the peer's index.
  using Turn = std::pair<double, std::size_t>;
  std::priority_queue<Turn, std::vector<Turn>, std::greater<>> turns;
  const auto queue = [&](std::size_t peer) {
    if (shares[peer] < most) turns.emplace((shares[peer] + 1.0) / speeds[peer], peer);
  };
  for (std::size_t peer = 0; peer < peers; ++peer) queue(peer);
  for (std::size_t left = total - least * peers; left > 0; --left) {
    const std::size_t peer = turns.top().second;
    turns.pop();
    ++shares[peer];
    queue(peer);
  }
  return shares;
}

}  // namespace gv
