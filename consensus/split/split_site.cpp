// Finds the groups of peers that may share layers.
#include "consensus/split/split_site.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.hpp"

namespace gv {
namespace {

/// The links of the cheapest tree are sorted by latency. The first link with more than this many
/// times the latency of its predecessor is cut, and so are all later ones.
constexpr double cluster_gap = 3;

/// A link of the cheapest tree, between peers[a] and peers[b].
struct TreeLink {
  double latency_s = 0;
  std::size_t a = 0;
  std::size_t b = 0;
};

/// The links of the tree that connects all peers with the least total latency (Prim), sorted by
/// latency.
std::vector<TreeLink> cheapest_tree(const SplitSite& site, std::span<const std::size_t> peers) {
  const auto latency = [&](std::size_t a, std::size_t b) {
    return site.links[peers[a]][peers[b]].latency_s;
  };
  std::vector<std::size_t> nearest(peers.size(), 0);
  std::vector<bool> inside(peers.size(), false);
  std::vector<TreeLink> tree;
  inside[0] = true;
  while (tree.size() + 1 < peers.size()) {
    TreeLink best{.latency_s = std::numeric_limits<double>::infinity()};
    bool found = false;
    for (std::size_t i = 0; i < peers.size(); ++i) {
      if (inside[i]) continue;
      const double away = latency(i, nearest[i]);
      if (found && away >= best.latency_s) continue;
      best = {away, nearest[i], i};
      found = true;
    }
    inside[best.b] = true;
    tree.push_back(best);
    for (std::size_t i = 0; i < peers.size(); ++i) {
      if (latency(i, best.b) < latency(i, nearest[i]) && i != best.b) nearest[i] = best.b;
    }
  }
  std::ranges::stable_sort(tree, {}, &TreeLink::latency_s);
  return tree;
}

void sort_by_speed(const SplitSite& site, std::vector<std::size_t>& peers) {
  std::ranges::sort(peers);
  std::ranges::stable_sort(peers, std::ranges::greater{},
                           [&](std::size_t i) { return site.peers[i].operations_per_s; });
}

/// The worst latency and bandwidth between peers of the same block.
SplitLink worst_link(const SplitSite& site, const std::vector<std::size_t>& peers,
                     std::size_t block) {
  SplitLink worst;
  for (std::size_t i = 0; i < peers.size(); ++i) {
    for (std::size_t j = i + 1; j < peers.size() && j / block == i / block; ++j) {
      worst.worsen(site.links[peers[i]][peers[j]]);
    }
  }
  return worst;
}

void append_prefixes(const SplitSite& site, const std::vector<std::size_t>& peers,
                     std::vector<SplitGroup>& groups) {
  for (std::size_t size = 1; size <= peers.size(); ++size) {
    SplitGroup group =
        group_of(site, {peers.begin(), peers.begin() + static_cast<std::ptrdiff_t>(size)});
    if (std::ranges::find(groups, group.peers, &SplitGroup::peers) == groups.end()) {
      groups.push_back(std::move(group));
    }
  }
}

}  // namespace

SplitGroup group_of(const SplitSite& site, std::vector<std::size_t> peers) {
  check(!peers.empty(), "a group has peers");
  sort_by_speed(site, peers);
  SplitGroup group{.peers = std::move(peers)};
  for (const std::size_t peer : group.peers) {
    group.speeds.push_back(site.peers[peer].operations_per_s);
  }
  for (std::size_t block = 1; block <= group.size(); ++block) {
    const bool divides = group.size() % block == 0;
    group.in_blocks.push_back(divides ? worst_link(site, group.peers, block) : SplitLink{});
  }
  return group;
}

bool contains(const SplitGroup& outer, const SplitGroup& inner) {
  return std::ranges::all_of(inner.peers, [&](std::size_t peer) {
    return std::ranges::find(outer.peers, peer) != outer.peers.end();
  });
}

std::vector<std::vector<std::size_t>> clusters_of(const SplitSite& site,
                                                  std::span<const std::size_t> peers) {
  if (peers.empty()) return {};
  const std::vector<TreeLink> tree = cheapest_tree(site, peers);
  std::size_t kept = 0;
  while (kept < tree.size() &&
         (kept == 0 || tree[kept].latency_s <= cluster_gap * tree[kept - 1].latency_s)) {
    ++kept;
  }
  std::vector<std::size_t> cluster(peers.size());
  std::iota(cluster.begin(), cluster.end(), std::size_t{0});
  for (std::size_t i = 0; i < kept; ++i) {
    const std::size_t from = cluster[tree[i].b];
    std::ranges::replace(cluster, from, std::size_t{cluster[tree[i].a]});
  }
  std::vector<std::vector<std::size_t>> clusters;
  for (std::size_t number = 0; number < peers.size(); ++number) {
    std::vector<std::size_t> members;
    for (std::size_t i = 0; i < peers.size(); ++i) {
      if (cluster[i] == number) members.push_back(peers[i]);
    }
    if (members.empty()) continue;
    sort_by_speed(site, members);
    clusters.push_back(std::move(members));
  }
  const auto speed = [&](const std::vector<std::size_t>& members) {
    double sum = 0;
    for (const std::size_t peer : members) sum += site.peers[peer].operations_per_s;
    return sum;
  };
  std::ranges::stable_sort(clusters, std::ranges::greater{}, speed);
  return clusters;
}

std::vector<SplitGroup> candidate_groups(const SplitSite& site,
                                         std::span<const std::size_t> peers) {
  std::vector<std::size_t> all(peers.begin(), peers.end());
  sort_by_speed(site, all);
  std::vector<SplitGroup> groups;
  append_prefixes(site, all, groups);
  for (const auto& cluster : clusters_of(site, peers)) append_prefixes(site, cluster, groups);
  return groups;
}

std::vector<std::size_t> largest_remainders(std::size_t grains, std::span<const double> weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<std::size_t> parts(weights.size());
  std::vector<double> rests(weights.size());
  std::size_t given = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double part = static_cast<double>(grains) * weights[i] / sum;
    parts[i] = std::min(static_cast<std::size_t>(part), grains - given);
    rests[i] = part - static_cast<double>(parts[i]);
    given += parts[i];
  }
  std::vector<std::size_t> order(weights.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::size_t i) { return rests[i]; });
  for (std::size_t i = 0; given < grains; ++i, ++given) ++parts[order[i % order.size()]];
  return parts;
}

}  // namespace gv
