// Four peers of different speeds and a small network, whose plans are known.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "consensus/split/split_plan.hpp"

namespace gv {

/// Peers of 8, 8, 4 and 2 GFLOP/s. The links between the first two and between the last two have
/// 0.1 ms and 1 Gbit/s. All other links have 2 ms and 100 Mbit/s, unless `all_near`.
inline SplitSite four_peers(bool all_near) {
  SplitSite site{.peers = {{"a", 8e9, 0}, {"b", 8e9, 0}, {"c", 4e9, 0}, {"d", 2e9, 0}}};
  site.links.assign(4, std::vector<SplitLink>(4, {2e-3, 12.5e6}));
  for (std::size_t a = 0; a < 4; ++a) {
    for (std::size_t b = 0; b < 4; ++b) {
      if (all_near || a / 2 == b / 2) site.links[a][b] = {1e-4, 125e6};
    }
  }
  return site;
}

/// Two convolutions, a pool and two dense layers, for images of 28 x 28.
inline std::vector<SplitLayer> network() {
  const double places = 28 * 28;
  return {{.name = "conv 32",
           .operations = 2 * places * 9 * 32,
           .weights = 288,
           .inputs = 784,
           .outputs = 32 * places,
           .rows = 28,
           .halo = 28,
           .halo_messages = 1},
          {.name = "conv 64",
           .operations = 2 * places * 9 * 32 * 64,
           .weights = 18432,
           .inputs = 32 * places,
           .outputs = 12544,
           .rows = 28,
           .halo = 32 * 28,
           .halo_messages = 1},
          {.name = "dense 1024",
           .operations = 2 * 12544.0 * 1024,
           .weights = 12544 * 1024,
           .inputs = 12544,
           .outputs = 1024,
           .has_factors = true,
           .model_grains = 1024},
          {.name = "dense 10",
           .operations = 2 * 10240,
           .weights = 10240,
           .inputs = 1024,
           .outputs = 10,
           .has_factors = true,
           .model_grains = 10}};
}

/// All ways to give each stage some of the peers.
inline std::vector<std::vector<std::vector<std::size_t>>> stages_of_peers(std::size_t peers,
                                                                          std::size_t stages) {
  std::vector<std::vector<std::vector<std::size_t>>> all;
  std::vector<std::size_t> stage_of(peers, 0);  // For each peer, its stage. The number after the
                                                // last stage means that the peer is left out.
  for (bool more = true; more;) {
    std::vector<std::vector<std::size_t>> own(stages);
    for (std::size_t i = 0; i < peers; ++i) {
      if (stage_of[i] < stages) own[stage_of[i]].push_back(i);
    }
    if (std::ranges::none_of(own, [](const auto& carriers) { return carriers.empty(); })) {
      all.push_back(std::move(own));
    }
    more = false;
    for (std::size_t i = 0; i < peers && !more; ++i) {
      more = ++stage_of[i] <= stages;
      if (!more) stage_of[i] = 0;
    }
  }
  return all;
}

/// True if each pinned peer is among the peers of its stage and of no other stage.
inline bool keeps_pins(const std::vector<std::vector<std::size_t>>& stages,
                       const std::vector<SplitPin>& pins) {
  return std::ranges::all_of(pins, [&](const SplitPin& pin) {
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const bool is_here = std::ranges::find(stages[s], pin.peer) != stages[s].end();
      if (is_here != (pin.at == s)) return false;
    }
    return pin.at < stages.size();
  });
}

/// For each stage, the peers that work on all of its layers.
inline std::vector<std::vector<std::size_t>> peers_of_stages(const SplitPlan& plan) {
  std::vector<std::vector<std::size_t>> stages;
  for (const SplitStage& stage : plan.stages) {
    std::vector<std::size_t>& peers = stages.emplace_back();
    for (std::size_t i = stage.first; i < stage.last; ++i) {
      const std::vector<std::size_t>& own = plan.groups[plan.layers[i].state.group].peers;
      if (i == stage.first) peers = own;
      std::erase_if(peers, [&](std::size_t peer) { return std::ranges::count(own, peer) == 0; });
    }
  }
  return stages;
}

inline SplitLink worst_link(const SplitSite& site, const std::vector<std::size_t>& from,
                            const std::vector<std::size_t>& to) {
  SplitLink worst{0, 1e300};
  for (const std::size_t a : from) {
    for (const std::size_t b : to) {
      if (a == b) continue;
      worst.latency_s = std::max(worst.latency_s, site.links[a][b].latency_s);
      worst.bytes_per_s = std::min(worst.bytes_per_s, site.links[a][b].bytes_per_s);
    }
  }
  return worst;
}

}  // namespace gv
