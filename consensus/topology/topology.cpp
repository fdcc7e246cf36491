// Names, weights and traits of all topologies.
#include "consensus/topology/topology.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <string>

#include "base/check.hpp"
#include "consensus/topology/base_k.hpp"
#include "consensus/topology/graphs.hpp"
#include "consensus/topology/hosts.hpp"
#include "consensus/topology/pairing.hpp"

namespace gv {
namespace {

/// ceil(lg n) for n >= 1.
std::size_t bits_for(std::size_t n) { return static_cast<std::size_t>(std::bit_width(n - 1)); }

/// The grid of moshpit. The digits of a rank in base `side` are its coordinates. `side` is the
/// smallest number with which the grid has room for all ranks. Unused axes are left out.
struct Grid {
  std::size_t side = 1;
  std::size_t axes = 1;
  /// side^(axes - 1), the distance between neighbours along the last axis.
  std::size_t last_stride = 1;
};

/// side^axes, but at most `limit`.
std::size_t power_up_to(std::size_t side, std::size_t axes, std::size_t limit) {
  std::size_t power = 1;
  for (std::size_t axis = 0; axis < axes && power < limit; ++axis) power *= side;
  return std::min(power, limit);
}

Grid grid_for(std::size_t n, std::size_t dimensions) {
  Grid grid;
  while (power_up_to(grid.side, dimensions, n) < n) ++grid.side;
  while (grid.last_stride * grid.side < n) {
    grid.last_stride *= grid.side;
    ++grid.axes;
  }
  return grid;
}

/// A round in which all lines along one axis average.
Mixing moshpit_round(std::size_t n, const Grid& grid, std::size_t axis) {
  const std::size_t stride = power_up_to(grid.side, axis, n);
  Mixing mixing(n);
  for (std::size_t rank = 0; rank < n; ++rank) {
    const std::size_t first = rank - rank / stride % grid.side * stride;
    std::vector<std::size_t> line;
    for (std::size_t place = 0; place < grid.side; ++place) {
      if (first + place * stride < n) line.push_back(first + place * stride);
    }
    for (const std::size_t other : line) {
      if (other != rank) mixing[rank].push_back({other, 1 / static_cast<double>(line.size())});
    }
  }
  return mixing;
}

/// A round in which each rank takes the models of the ranks that are `offsets` after it, with equal
/// weights.
Mixing shifted(std::size_t n, const std::vector<std::size_t>& offsets) {
  Mixing mixing(n);
  const double weight = 1 / static_cast<double>(offsets.size() + 1);
  for (std::size_t rank = 0; rank < n; ++rank) {
    for (const std::size_t offset : offsets) mixing[rank].push_back({(rank + offset) % n, weight});
    std::ranges::sort(mixing[rank], {}, &Share::from);
  }
  return mixing;
}

Mixing matching_round(std::size_t n, std::uint64_t seed, std::uint64_t round) {
  Mixing mixing(n);
  const std::vector<std::size_t> order = matching_order(seed, round, n);
  for (std::size_t place = 0; place + 1 < n; place += 2) {
    mixing[order[place]].push_back({order[place + 1], 0.5});
    mixing[order[place + 1]].push_back({order[place], 0.5});
  }
  return mixing;
}

Mixing eager_mixing(const Topology& topology, std::size_t n, std::uint64_t seed,
                    std::uint64_t round, std::span<const std::size_t> hosts) {
  switch (topology.kind) {
    case TopologyKind::matching:
      return matching_round(n, seed, round);
    case TopologyKind::exponential: {
      std::vector<std::size_t> offsets;
      for (std::size_t offset = 1; offset < n; offset *= 2) offsets.push_back(offset);
      return shifted(n, offsets);
    }
    case TopologyKind::one_peer_exponential: {
      if (n == 1) return Mixing(1);
      return shifted(n, {n - (std::size_t{1} << (round % bits_for(n)))});
    }
    case TopologyKind::base_k: {
      std::vector<Mixing> rounds = base_k_rounds(n, base_k_of(topology));
      return std::move(rounds[round % rounds.size()]);
    }
    case TopologyKind::moshpit: {
      const Grid grid = grid_for(n, topology.dimensions);
      return moshpit_round(n, grid, round % grid.axes);
    }
    case TopologyKind::hosts:
      return hosts.empty() ? hosts_round(even_hosts(n), topology.hosts_every, seed, round)
                           : hosts_round(hosts, topology.hosts_every, seed, round);
    default:
      return metropolis(n, edges_of(topology, n, seed));
  }
}

std::string of_peers(const Topology& topology, std::size_t n) {
  return std::string(to_string(topology.kind)) + " of " + std::to_string(n) + " peers";
}

Problem odd_regular(const Topology& topology, std::size_t n, std::size_t degree) {
  return {of_peers(topology, n),
          std::to_string(n) + " peers with " + std::to_string(degree) +
              " neighbours each have no whole number of edges",
          "take degree " + std::to_string(degree - 1) + " or " + std::to_string(degree + 1) +
              ", or an even number of peers"};
}

}  // namespace

std::optional<Problem> problem_of(const Topology& topology, std::size_t n) {
  check(n >= 1, "a topology has at least one peer");
  if (topology.kind == TopologyKind::hypercube && !std::has_single_bit(n)) {
    const std::size_t above = std::bit_ceil(n);
    return Problem{of_peers(topology, n),
                   "a hypercube needs a power of two, and " + std::to_string(n) + " is none",
                   "take " + std::to_string(above / 2) + " or " + std::to_string(above) +
                       " peers, or exponential or base_k, which fit any number"};
  }
  if (topology.kind == TopologyKind::random_regular) {
    const std::size_t degree = regular_degree(topology, n);
    if (degree == 1 && n > 2) {
      return Problem{of_peers(topology, n),
                     "with one neighbour each they fall into pairs that never meet the others",
                     "take degree 2 or more"};
    }
    if (n * degree % 2 != 0) return odd_regular(topology, n, degree);
  }
  if (topology.kind == TopologyKind::moshpit && topology.dimensions == 0) {
    return Problem{of_peers(topology, n), "a grid has at least one dimension", "take 2"};
  }
  if (topology.kind == TopologyKind::hosts && topology.hosts_every < hosts_every_min) {
    return Problem{of_peers(topology, n),
                   "hosts must average inside before and after they average with others",
                   "take at least " + std::to_string(hosts_every_min) + " rounds"};
  }
  return std::nullopt;
}

double own_share(const Mixing& round, std::size_t rank) {
  double rest = 1;
  for (const Share& share : round[rank]) rest -= share.weight;
  return rest;
}

std::size_t period_of(const Topology& topology, std::size_t n) {
  switch (topology.kind) {
    case TopologyKind::matching:
      return n <= 2 ? 1 : 0;
    case TopologyKind::one_peer_exponential:
      return std::max<std::size_t>(1, bits_for(n));
    case TopologyKind::base_k:
      return base_k_rounds(n, base_k_of(topology)).size();
    case TopologyKind::moshpit:
      return grid_for(n, topology.dimensions).axes;
    case TopologyKind::hosts:
      return n == 1 ? 1 : topology.hosts_every;
    default:
      return 1;
  }
}

Mixing mixing_of(const Topology& topology, std::size_t n, std::uint64_t seed, std::uint64_t round,
                 std::span<const std::size_t> hosts) {
  check(!problem_of(topology, n), "the topology does not fit the number of peers");
  check(hosts.empty() || hosts.size() == n, "every rank is on a host");
  Mixing mixing = eager_mixing(topology, n, seed, round, hosts);
  if (!topology.lazy) return mixing;
  for (std::vector<Share>& row : mixing) {
    for (Share& share : row) share.weight /= 2;
  }
  return mixing;
}

bool is_symmetric(const Topology& topology, std::size_t n) {
  return (topology.kind != TopologyKind::exponential || n <= 3) &&
         (topology.kind != TopologyKind::one_peer_exponential || n <= 2);
}

Traits traits_of(const Topology& topology, std::size_t n) {
  Traits traits{.exact_after = 0};
  traits.symmetric = is_symmetric(topology, n);
  const std::size_t period = period_of(topology, n);
  // All rounds inside hosts are equal, so a shorter period has the same distinct rounds.
  Topology shortest = topology;
  if (topology.kind == TopologyKind::hosts) shortest.hosts_every = hosts_every_min;
  bool is_complete = true;
  for (std::size_t round = 0; round < std::max<std::size_t>(1, period_of(shortest, n)); ++round) {
    for (const std::vector<Share>& row : mixing_of(shortest, n, 0, round)) {
      traits.degree = std::max(traits.degree, row.size());
      is_complete = is_complete && row.size() + 1 == n;
    }
  }
  if (n == 1) {
    traits.exact_after = 1;
  } else if (topology.lazy) {
    return traits;
  } else if (topology.kind == TopologyKind::base_k || topology.kind == TopologyKind::hosts ||
             (topology.kind == TopologyKind::one_peer_exponential && std::has_single_bit(n))) {
    traits.exact_after = period;
  } else if (topology.kind == TopologyKind::moshpit) {
    // The mean is exact if all lines along each axis have the same length, which holds if the last
    // axis is filled completely.
    const bool full = n % grid_for(n, topology.dimensions).last_stride == 0;
    traits.exact_after = full ? period : 0;
  } else if (is_complete && period == 1) {
    traits.exact_after = 1;
  }
  return traits;
}

}  // namespace gv
