// Computes each replica's share of the micro-batches, and spreads the shares evenly.
#include "consensus/pipeline/router.hpp"

#include <algorithm>
#include <set>

#include "base/check.hpp"
#include "base/shares.hpp"

namespace gv {
namespace {

/// Gives each worker its share of the micro-batches, evenly spread. The next micro-batch always
/// goes to the worker that is furthest behind its share, or, on a tie, to the first such worker.
std::vector<std::uint32_t> spread(std::span<const std::uint32_t> workers,
                                  std::span<const std::uint32_t> shares,
                                  std::size_t micro_batches) {
  std::vector<std::uint32_t> order;
  std::vector<std::size_t> taken(workers.size(), 0);
  for (std::size_t b = 0; b < micro_batches; ++b) {
    std::size_t next = 0;
    for (std::size_t i = 1; i < workers.size(); ++i) {
      // Compares (taken + 1/2) / share without dividing.
      if ((2 * taken[i] + 1) * shares[next] < (2 * taken[next] + 1) * shares[i]) next = i;
    }
    ++taken[next];
    order.push_back(workers[next]);
  }
  return order;
}

/// As many chains as possible, such that no two have a worker in common.
std::vector<std::vector<std::uint32_t>> whole_chains(
    std::span<const std::vector<std::uint32_t>> replicas) {
  std::vector<std::vector<std::uint32_t>> chains(replicas.size());
  std::set<std::uint32_t> taken;
  while (true) {
    std::vector<std::uint32_t> chain;
    for (const auto& workers : replicas) {
      const auto next = std::ranges::find_if(
          workers, [&](std::uint32_t worker) { return !taken.contains(worker); });
      if (next == workers.end()) return chains;
      chain.push_back(*next);
    }
    taken.insert(chain.begin(), chain.end());
    for (std::size_t s = 0; s < chains.size(); ++s) chains[s].push_back(chain[s]);
  }
}

}  // namespace

Routes make_routes(RouterKind kind, std::span<const std::vector<std::uint32_t>> replicas,
                   std::size_t micro_batches, std::span<const double> speeds, Rng draws) {
  Routes routes(micro_batches, std::vector<std::uint32_t>(replicas.size()));
  for (std::size_t s = 0; s < replicas.size(); ++s) {
    const std::vector<std::uint32_t>& workers = replicas[s];
    check(!workers.empty(), "every stage has a replica");
    std::vector<std::uint32_t> order;
    if (kind == RouterKind::throughput && workers.size() <= micro_batches) {
      std::vector<double> own;
      for (const std::uint32_t worker : workers) own.push_back(speeds[worker]);
      const auto all = static_cast<std::uint32_t>(micro_batches);
      order = spread(workers, batch_shares(own, all, all), micro_batches);
    } else {
      for (std::size_t b = 0; b < micro_batches; ++b) order.push_back(workers[b % workers.size()]);
    }
    if (kind == RouterKind::random) draws.fork(s).shuffle(std::span(order));
    for (std::size_t b = 0; b < micro_batches; ++b) routes[b][s] = order[b];
  }
  return routes;
}

Routes make_routes(PipelineKind schedule, RouterKind kind,
                   std::span<const std::vector<std::uint32_t>> replicas, std::size_t micro_batches,
                   std::span<const double> speeds, Rng draws) {
  std::vector<std::vector<std::uint32_t>> down(replicas.begin(), replicas.end());
  if (!is_synchronous(schedule)) down = whole_chains(replicas);
  if (schedule != PipelineKind::chimera) {
    return make_routes(kind, down, micro_batches, speeds, draws);
  }
  for (std::size_t s = 0; s < down.size(); ++s) {
    const auto half = static_cast<std::ptrdiff_t>((down[s].size() + 1) / 2);
    if (down[s].size() < 2) continue;
    if (s < down.size() / 2) {
      down[s].erase(down[s].begin() + half, down[s].end());
    } else {
      down[s].erase(down[s].begin(), down[s].begin() + half);
    }
  }
  auto up = down;
  std::ranges::reverse(up);
  Routes routes = make_routes(kind, down, micro_batches, speeds, draws);
  const Routes others = make_routes(kind, up, micro_batches, speeds, draws);
  for (std::size_t b = 1; b < routes.size(); b += 2) routes[b] = others[b];
  return routes;
}

}  // namespace gv
