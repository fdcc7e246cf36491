// The formulas of the costs.
#include "consensus/split/layer_costs.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include "base/check.hpp"

namespace gv {
namespace {

/// The gradients by the inputs and by the weights each take as long as the forward pass.
constexpr double passes = 3;
constexpr double float_bytes = 4;

double real(std::size_t count) { return static_cast<double>(count); }

/// An exchange of messages one after the other, over links of this quality.
SplitCost messages(double count, double floats_each, const SplitLink& link) {
  const double bytes = float_bytes * floats_each;
  return {.activations_s = count * link.seconds(bytes), .bytes = count * bytes};
}

/// Gathers `floats` in all among `members`, each of which has an equal part of them.
SplitCost gather(double floats, std::size_t members, const SplitLink& link, GatherRounds rounds) {
  if (members <= 1) return {};
  const double steps = rounds == GatherRounds::ring
                           ? real(members - 1)
                           : real(static_cast<std::size_t>(std::bit_width(members - 1)));
  const double bytes = float_bytes * floats * real(members - 1) / real(members);
  return {.activations_s =
              steps * link.latency_s + (link.bytes_per_s > 0 ? bytes / link.bytes_per_s : 0),
          .bytes = bytes};
}

SplitCost times(SplitCost cost, double factor) {
  cost.compute_s *= factor;
  cost.activations_s *= factor;
  cost.weights_s *= factor;
  cost.bytes *= factor;
  return cost;
}

/// A collective of gradients in place of one of activations.
SplitCost of_weights(SplitCost cost) {
  std::swap(cost.activations_s, cost.weights_s);
  return cost;
}

/// Where factors travel, every peer computes the gradient of the weights from all samples.
double slowest_compute(const SplitLayer& layer, const SplitState& state, const SplitGroup& group,
                       const SplitBatch& batch) {
  const std::vector<SplitShare> shares = shares_of(layer, state, group, batch);
  const std::size_t grains = state.kind == SplitKind::rows ? layer.rows : layer.model_grains;
  double slowest = 0;
  for (std::size_t i = 0; i < group.size(); ++i) {
    double samples = passes * real(shares[i].samples);
    if (state.kind == SplitKind::factors) {
      samples = (passes - 1) * real(shares[i].samples) + real(batch.of_pass());
    }
    const double part = state.ways == 1 ? 1 : real(shares[i].end - shares[i].begin) / real(grains);
    slowest = std::max(slowest, layer.operations * samples * part / group.speeds[i]);
  }
  return slowest;
}

/// The peers among which activations move between two states.
struct Crossing {
  bool same_group = false;
  std::size_t members = 1;
  double samples = 0;  ///< The samples of a pass that these members hold together.
};

Crossing crossing_of(const SplitState& from, const SplitGroup& from_group, const SplitState& to,
                     const SplitGroup& to_group, const SplitGroup& both, const SplitBatch& batch) {
  Crossing crossing{.same_group = from_group.peers == to_group.peers,
                    .members = both.size(),
                    .samples = real(batch.of_pass())};
  const bool fits = from.ways == to.ways || from.ways == 1 || to.ways == 1;
  if (crossing.same_group && fits) {
    crossing.members = std::max(from.ways, to.ways);
    crossing.samples *= real(crossing.members) / real(both.size());
  }
  return crossing;
}

/// True if each peer holds after the first layer what it needs for the second one.
bool is_in_place(const SplitState& from, const SplitState& to, bool same_group) {
  if (!same_group || from.ways != to.ways) return false;
  return from.ways == 1 || from.kind == to.kind;
}

}  // namespace

std::string_view to_string(SplitKind kind) {
  constexpr std::array<std::string_view, 4> names{"samples", "factors", "model", "rows"};
  return names[static_cast<std::size_t>(kind)];
}

SplitCost& SplitCost::operator+=(const SplitCost& other) {
  compute_s += other.compute_s;
  activations_s += other.activations_s;
  weights_s += other.weights_s;
  bytes += other.bytes;
  return *this;
}

std::vector<SplitState> states_of(const SplitLayer& layer, const SplitGroup& group,
                                  std::size_t index, const SplitBatch& batch) {
  std::vector<SplitState> possible{{SplitKind::samples, index, 1}};
  if (group.size() > 1) {
    // Factors are those of all samples of a step at once.
    if (layer.has_factors && batch.micro_batches == 1) {
      possible.push_back({SplitKind::factors, index, 1});
    }
    for (std::size_t ways = 2; ways <= group.size(); ++ways) {
      if (group.size() % ways != 0) continue;
      if (layer.model_grains >= ways) possible.push_back({SplitKind::model, index, ways});
      if (layer.rows >= ways) possible.push_back({SplitKind::rows, index, ways});
    }
  }
  std::erase_if(possible, [&](const SplitState& state) {
    return std::ranges::any_of(shares_of(layer, state, group, batch), [&](const SplitShare& share) {
      return share.samples == 0 || (state.ways > 1 && share.begin == share.end);
    });
  });
  return possible;
}

std::vector<SplitShare> shares_of(const SplitLayer& layer, const SplitState& state,
                                  const SplitGroup& group, const SplitBatch& batch) {
  check(group.size() % state.ways == 0, "a group consists of whole blocks");
  const auto begin = group.speeds.begin();
  std::vector<double> blocks;
  for (std::size_t at = 0; at < group.size(); at += state.ways) {
    blocks.push_back(std::accumulate(begin + static_cast<std::ptrdiff_t>(at),
                                     begin + static_cast<std::ptrdiff_t>(at + state.ways), 0.0));
  }
  const std::vector<std::size_t> samples = largest_remainders(batch.of_pass(), blocks);
  const std::size_t grains = state.kind == SplitKind::rows    ? layer.rows
                             : state.kind == SplitKind::model ? layer.model_grains
                                                              : 1;
  std::vector<SplitShare> shares;
  for (std::size_t at = 0; at < group.size(); at += state.ways) {
    const std::vector<std::size_t> parts =
        largest_remainders(grains, std::span(group.speeds).subspan(at, state.ways));
    std::size_t next = 0;
    for (const std::size_t part : parts) {
      shares.push_back({samples[at / state.ways], next, next + part});
      next += part;
    }
  }
  return shares;
}

SplitCost layer_cost(const SplitLayer& layer, const SplitState& state, const SplitGroup& group,
                     const SplitBatch& batch, GatherRounds rounds) {
  const SplitLink& link = group.link();
  const SplitLink& inside = group.link(state.ways);
  const std::size_t blocks = group.size() / state.ways;
  const double samples = real(batch.of_pass()) / real(blocks);
  SplitCost pass{.compute_s = slowest_compute(layer, state, group, batch)};
  SplitCost sums;
  switch (state.kind) {
    case SplitKind::samples:
      sums = times(gather(layer.weights, group.size(), link, rounds), 2);
      break;
    case SplitKind::factors:
      sums =
          gather(real(batch.samples) * (layer.inputs + layer.outputs), group.size(), link, rounds);
      break;
    case SplitKind::rows:
      // Links between different neighbours work at the same time.
      pass += times(messages(layer.halo_messages, 0, inside), 2);
      pass += times(messages(1, samples * layer.halo, {0, inside.bytes_per_s}), 2);
      sums = times(gather(layer.weights, group.size(), link, rounds), 2);
      break;
    case SplitKind::model: {
      const double merges = layer.merge == OutputMerge::none  ? 0
                            : layer.merge == OutputMerge::sum ? 2
                                                              : 1;
      pass += times(gather(samples * layer.outputs, state.ways, inside, rounds), merges);
      sums = times(gather(layer.weights / real(state.ways), blocks, link, rounds), 2);
      break;
    }
  }
  SplitCost cost = times(pass, real(batch.micro_batches));
  return cost += of_weights(sums);
}

SplitCost edge_cost(double floats, const SplitState& from, const SplitGroup& from_group,
                    const SplitState& to, const SplitGroup& to_group, const SplitGroup& both,
                    const SplitBatch& batch, GatherRounds rounds) {
  const Crossing crossing = crossing_of(from, from_group, to, to_group, both, batch);
  const SplitLink& link =
      both.link(crossing.members < both.size() ? crossing.members : both.size());
  const SplitCost gathered = gather(crossing.samples * floats, crossing.members, link, rounds);
  const double pass_floats = real(batch.of_pass()) * floats;
  const double receivers = real(to_group.size());
  const bool is_inside = contains(from_group, to_group);
  // What a layer shared by model has gathered is at all members of its block.
  const bool is_there = from.kind == SplitKind::model && from.ways > 1 &&
                        (crossing.same_group ? from.ways == to.ways || to.ways == 1
                                             : is_inside && from.ways == from_group.size());
  SplitCost cost;
  if (to.kind == SplitKind::model) {
    if (from.kind != SplitKind::model) {
      cost = times(gathered, 2);
    } else {
      if (!is_there) cost += gathered;
      cost += times(gathered, 2);
    }
  } else if (from.kind == SplitKind::model) {
    if (!is_there) cost += messages(1, pass_floats / receivers, link);
    const double others = real(from.ways) - (is_inside ? 1 : 0);
    cost += messages(others, pass_floats / receivers / real(from.ways), link);
  } else if (!is_in_place(from, to, crossing.same_group)) {
    const double pairs = crossing.same_group ? real(crossing.members * crossing.members)
                                             : real(from_group.size()) * receivers;
    cost = times(messages(real(crossing.members - 1), crossing.samples * floats / pairs, link), 2);
  }
  return times(cost, real(batch.micro_batches));
}

std::vector<double> layer_memory(const SplitLayer& layer, const SplitState& state,
                                 const SplitGroup& group, const SplitBatch& batch,
                                 double bytes_per_weight) {
  std::vector<double> bytes;
  for (const SplitShare& share : shares_of(layer, state, group, batch)) {
    const bool by_model = state.kind == SplitKind::model;
    const bool by_rows = state.kind == SplitKind::rows;
    const double part = by_model  ? real(share.end - share.begin) / real(layer.model_grains)
                        : by_rows ? real(share.end - share.begin) / real(layer.rows)
                                  : 1;
    // By model the inputs are gathered, and the outputs too unless they stay where they are.
    const double kept =
        by_model ? layer.inputs + (layer.merge == OutputMerge::none ? part : 1.0) * layer.outputs
                 : layer.outputs * part;
    bytes.push_back(bytes_per_weight * layer.weights * (by_model ? part : 1.0) +
                    float_bytes * real(share.samples * batch.in_flight) * kept);
  }
  return bytes;
}

}  // namespace gv
