// Gives each peer most of its share at once, and deals the remaining samples one by one, each to
// the peer that would finish it first.
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

/// Gives each peer the samples that it would certainly get if all samples were dealt one by one.
/// Returns the number of samples that are left.
///
/// Dealt one by one, samples go to the peers in the order of the times (share + 1) / speed. Take
/// any time by which all peers together would finish no more samples than there are. Each peer
/// certainly gets all samples that it would finish by that time. Rounding could make one sample of
/// a peer late, so the peer is given one fewer.
std::uint64_t give_sure_shares(std::vector<std::uint32_t>& shares, std::span<const double> speeds,
                               std::uint64_t left, std::uint32_t most) {
  const std::uint64_t rounding = 2 * shares.size();
  double by = 0;
  while (left > rounding) {
    double sum = 0;
    for (std::size_t i = 0; i < shares.size(); ++i) sum += shares[i] < most ? speeds[i] : 0;
    by += static_cast<double>(left - rounding) / sum;
    if (!std::isfinite(by)) return left;
    const std::uint64_t before = left;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      const double sure = std::min(std::floor(by * speeds[i]) - 1, static_cast<double>(most));
      if (!(sure > shares[i])) continue;
      left -= static_cast<std::uint32_t>(sure) - shares[i];
      shares[i] = static_cast<std::uint32_t>(sure);
    }
    if (left == before) return left;
  }
  return left;
}

}  // namespace

std::vector<double> known_speeds(std::span<const double> speeds) {
  const auto is_measured = [](double speed) { return std::isfinite(speed) && speed > 0; };
  std::vector<double> measured;
  std::ranges::copy_if(speeds, std::back_inserter(measured), is_measured);
  std::ranges::sort(measured);
  const double median = measured.empty() ? 1 : measured[(measured.size() - 1) / 2];
  std::vector<double> known(speeds.begin(), speeds.end());
  for (double& speed : known) speed = is_measured(speed) ? speed : median;
  return known;
}

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
  std::uint64_t left = give_sure_shares(shares, speeds, total - least * peers, most);
  for (std::size_t peer = 0; peer < peers; ++peer) queue(peer);
  for (; left > 0; --left) {
    const std::size_t peer = turns.top().second;
    turns.pop();
    ++shares[peer];
    queue(peer);
  }
  return shares;
}

}  // namespace gv
