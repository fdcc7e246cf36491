// Bottleneck travelling salesman, solved exactly for few peers and by local search for many.
#include "consensus/allreduce/ring_order.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

#include "base/check.hpp"
#include "base/rng.hpp"

namespace gv {
namespace {

using Ring = std::vector<std::size_t>;

/// The cost of each link, always finite: (from, to) -> seconds, row by row.
class Links {
 public:
  Links(std::size_t peers, const std::function<double(std::size_t, std::size_t)>& seconds)
      : peers_(peers), cost_(peers * peers, 0.0) {
    const double infinity = std::numeric_limits<double>::infinity();
    double slowest = 0;
    for (std::size_t from = 0; from < peers; ++from) {
      for (std::size_t to = 0; to < peers; ++to) {
        if (from == to) continue;
        const double cost = seconds(from, to);
        at(from, to) = cost >= 0 ? cost : infinity;
        if (std::isfinite(at(from, to))) slowest = std::max(slowest, at(from, to));
      }
    }
    // A missing link costs more than any ring without missing links.
    const double none = (slowest > 0 ? slowest : 1) * static_cast<double>(2 * peers);
    for (double& cost : cost_) cost = std::min(cost, none);
  }

  std::size_t peers() const { return peers_; }
  double operator()(std::size_t from, std::size_t to) const { return cost_[from * peers_ + to]; }

  /// The same links, but those slower than `limit` cost more than any ring without them.
  Links limited_to(double limit) const {
    Links limited = *this;
    const double dear = 1 + *std::ranges::max_element(cost_) * static_cast<double>(peers_);
    for (double& cost : limited.cost_) cost += cost > limit ? dear : 0;
    return limited;
  }

  /// All distinct costs of links, ascending.
  std::vector<double> levels() const {
    std::vector<double> levels;
    for (std::size_t from = 0; from < peers_; ++from) {
      for (std::size_t to = 0; to < peers_; ++to) {
        if (from != to) levels.push_back((*this)(from, to));
      }
    }
    std::ranges::sort(levels);
    levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
    return levels;
  }

 private:
  double& at(std::size_t from, std::size_t to) { return cost_[from * peers_ + to]; }

  std::size_t peers_;
  std::vector<double> cost_;
};

double larger(double a, double b) { return std::max(a, b); }
double sum(double a, double b) { return a + b; }

/// The costs of a ring's links, combined with `combine`: their sum or the largest.
double cost_of(const Ring& ring, const Links& links, double (*combine)(double, double)) {
  double cost = links(ring.back(), ring.front());
  for (std::size_t i = 1; i < ring.size(); ++i) cost = combine(cost, links(ring[i - 1], ring[i]));
  return cost;
}

/// The cheapest ring. best[set][last] is the cost of the cheapest path from peer 0 through all of
/// `set` to peer last + 1. The set has a bit for each of the peers 1, 2, ...
Ring exact_ring(const Links& links, double (*combine)(double, double)) {
  const std::size_t others = links.peers() - 1;
  const std::size_t all = (std::size_t{1} << others) - 1;
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector<double> best((all + 1) * others, infinity);
  std::vector<std::size_t> before((all + 1) * others, 0);
  for (std::size_t last = 0; last < others; ++last) {
    best[(std::size_t{1} << last) * others + last] = links(0, last + 1);
  }
  for (std::size_t set = 1; set <= all; ++set) {
    for (std::size_t last = 0; last < others; ++last) {
      const double so_far = best[set * others + last];
      if (so_far == infinity) continue;
      for (std::size_t next = 0; next < others; ++next) {
        if (set >> next & 1) continue;
        const std::size_t to = (set | std::size_t{1} << next) * others + next;
        const double cost = combine(so_far, links(last + 1, next + 1));
        if (cost >= best[to]) continue;
        best[to] = cost;
        before[to] = last;
      }
    }
  }
  std::size_t last = 0;
  double least = infinity;
  for (std::size_t end = 0; end < others; ++end) {
    const double cost = combine(best[all * others + end], links(end + 1, 0));
    if (cost < least) std::tie(least, last) = std::pair(cost, end);
  }
  Ring ring;
  for (std::size_t set = all; set != 0;) {
    ring.push_back(last + 1);
    const std::size_t earlier = before[set * others + last];
    set &= ~(std::size_t{1} << last);
    last = earlier;
  }
  ring.push_back(0);
  std::ranges::reverse(ring);
  return ring;
}

/// Builds a ring greedily: takes links in ascending order of cost if they extend or join paths.
Ring greedy_ring(const Links& links) {
  const std::size_t peers = links.peers();
  std::vector<std::pair<std::size_t, std::size_t>> sorted;
  for (std::size_t from = 0; from < peers; ++from) {
    for (std::size_t to = 0; to < peers; ++to) {
      if (from != to) sorted.emplace_back(from, to);
    }
  }
  std::ranges::stable_sort(sorted, {},
                           [&](const auto& link) { return links(link.first, link.second); });
  // A peer without a successor is the last of a path, and one without a predecessor is the first.
  // `other_end` is valid for these peers only.
  std::vector<std::size_t> next(peers, peers), previous(peers, peers), other_end(peers);
  std::iota(other_end.begin(), other_end.end(), std::size_t{0});
  for (const auto& [from, to] : sorted) {
    if (next[from] != peers || previous[to] != peers || other_end[from] == to) continue;
    next[from] = to;
    previous[to] = from;
    const std::size_t head = other_end[from];
    const std::size_t tail = other_end[to];
    other_end[head] = tail;
    other_end[tail] = head;
  }
  // One path is left, so join its two ends.
  *std::ranges::find(next, peers) =
      static_cast<std::size_t>(std::ranges::find(previous, peers) - previous.begin());
  Ring ring{0};
  while (ring.size() < peers) ring.push_back(next[ring.back()]);
  return ring;
}

/// Swaps two neighbouring segments where that makes the ring cheaper. Returns true if the ring has
/// changed.
bool move_segments(Ring& ring, const Links& links, double least_gain) {
  const std::size_t n = ring.size();
  bool improved = false;
  for (std::size_t a = 1; a + 1 < n; ++a) {
    for (std::size_t b = a + 1; b < n; ++b) {
      for (std::size_t c = b + 1; c <= n; ++c) {
        const std::size_t after = ring[c % n];
        const double removed =
            links(ring[a - 1], ring[a]) + links(ring[b - 1], ring[b]) + links(ring[c - 1], after);
        const double added =
            links(ring[a - 1], ring[b]) + links(ring[c - 1], ring[a]) + links(ring[b - 1], after);
        if (removed - added <= least_gain) continue;
        std::rotate(ring.begin() + static_cast<std::ptrdiff_t>(a),
                    ring.begin() + static_cast<std::ptrdiff_t>(b),
                    ring.begin() + static_cast<std::ptrdiff_t>(c));
        improved = true;
      }
    }
  }
  return improved;
}

/// Reverses segments where that makes the ring cheaper. Returns true if the ring has changed.
bool reverse_segments(Ring& ring, const Links& links, double least_gain) {
  const std::size_t n = ring.size();
  bool improved = false;
  for (std::size_t a = 1; a + 1 < n; ++a) {
    double forwards = 0;
    double backwards = 0;
    for (std::size_t b = a + 2; b <= n; ++b) {
      forwards += links(ring[b - 2], ring[b - 1]);
      backwards += links(ring[b - 1], ring[b - 2]);
      const std::size_t after = ring[b % n];
      const double removed = links(ring[a - 1], ring[a]) + forwards + links(ring[b - 1], after);
      const double added = links(ring[a - 1], ring[b - 1]) + backwards + links(ring[a], after);
      if (removed - added <= least_gain) continue;
      std::reverse(ring.begin() + static_cast<std::ptrdiff_t>(a),
                   ring.begin() + static_cast<std::ptrdiff_t>(b));
      std::swap(forwards, backwards);
      improved = true;
    }
  }
  return improved;
}

/// Improves a ring until neither kind of move lowers the sum of its costs.
void improve(Ring& ring, const Links& links) {
  // Gains below rounding errors could make the search go in circles.
  const double least_gain = 1e-12 * cost_of(ring, links, sum);
  while (move_segments(ring, links, least_gain) || reverse_segments(ring, links, least_gain)) {
  }
}

/// Reverses the order of three neighbouring segments. This is the smallest change that neither kind
/// of move undoes (the double bridge of Martin, Otto and Felten 1991).
void kick(Ring& ring, Rng& rng) {
  std::size_t cuts[4];
  for (std::size_t& cut : cuts) cut = 1 + rng.below(ring.size());
  std::ranges::sort(cuts);
  Ring kicked(ring.begin(), ring.begin() + static_cast<std::ptrdiff_t>(cuts[0]));
  for (std::size_t i = 3; i > 0; --i) {
    kicked.insert(kicked.end(), ring.begin() + static_cast<std::ptrdiff_t>(cuts[i - 1]),
                  ring.begin() + static_cast<std::ptrdiff_t>(cuts[i]));
  }
  kicked.insert(kicked.end(), ring.begin() + static_cast<std::ptrdiff_t>(cuts[3]), ring.end());
  ring = std::move(kicked);
}

constexpr int kicks = 50;

/// Searches for a ring whose costs have a small sum, at most that of `ring`. Stops as soon as the
/// sum is at most `enough`.
Ring search(Ring ring, const Links& links, double enough, Rng& rng) {
  Ring greedy = greedy_ring(links);
  improve(ring, links);
  improve(greedy, links);
  if (cost_of(greedy, links, sum) < cost_of(ring, links, sum)) ring = std::move(greedy);
  double cost = cost_of(ring, links, sum);
  for (int i = 0; i < kicks && cost > enough; ++i) {
    Ring other = ring;
    kick(other, rng);
    improve(other, links);
    const double other_cost = cost_of(other, links, sum);
    if (other_cost > cost) continue;
    ring = std::move(other);
    cost = other_cost;
  }
  return ring;
}

/// A lower bound for the cost of a ring's slowest link: every ring has a link into and a link out
/// of every peer.
double least_bottleneck(const Links& links) {
  double least = 0;
  for (std::size_t peer = 0; peer < links.peers(); ++peer) {
    double in = std::numeric_limits<double>::infinity();
    double out = in;
    for (std::size_t other = 0; other < links.peers(); ++other) {
      if (other == peer) continue;
      in = std::min(in, links(other, peer));
      out = std::min(out, links(peer, other));
    }
    least = std::max({least, in, out});
  }
  return least;
}

Ring searched_ring(const Links& links) {
  Rng rng(links.peers());
  Ring best = search(greedy_ring(links), links, 0, rng);
  const std::vector<double> levels = links.levels();
  const auto level_of = [&](double cost) {
    return static_cast<std::size_t>(std::ranges::lower_bound(levels, cost) - levels.begin());
  };
  std::size_t low = level_of(least_bottleneck(links));
  std::size_t high = level_of(cost_of(best, links, larger));
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    const double enough = levels[middle] * static_cast<double>(links.peers());
    Ring ring = search(best, links.limited_to(levels[middle]), enough, rng);
    const double bottleneck = cost_of(ring, links, larger);
    if (bottleneck <= levels[middle]) {
      best = std::move(ring);
      high = level_of(bottleneck);
    } else {
      low = middle + 1;
    }
  }
  return search(best, links.limited_to(cost_of(best, links, larger)), 0, rng);
}

}  // namespace

std::vector<std::size_t> ring_order(
    std::size_t peers, const std::function<double(std::size_t from, std::size_t to)>& seconds,
    std::size_t exact_up_to) {
  check(exact_up_to <= 16, "exact rings are for few peers");
  if (peers < 3) {
    Ring ring(peers);
    std::iota(ring.begin(), ring.end(), std::size_t{0});
    return ring;
  }
  const Links links(peers, seconds);
  if (peers > exact_up_to) return searched_ring(links);
  const double bottleneck = cost_of(exact_ring(links, larger), links, larger);
  return exact_ring(links.limited_to(bottleneck), sum);
}

}  // namespace gv
