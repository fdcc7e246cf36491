// Computes the costs of layers.
#include "consensus/split/layer_costs.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include "base/check.hpp"
#include "base/shares.hpp"

namespace gv {
namespace {

/// A step computes three passes of equal cost: forward, the inputs' gradient, and the weights'
/// gradient.
constexpr double passes = 3;
constexpr double float_bytes = 4;

double real(std::size_t count) { return static_cast<double>(count); }

/// The cost of `count` messages of `floats_each` floats, sent one after another over `link`.
SplitCost messages(double count, double floats_each, const SplitLink& link) {
  const double bytes = float_bytes * floats_each;
  return {.activations_s = count * link.seconds(bytes), .bytes = count * bytes};
}

/// The cost of gathering `floats` values among `members` peers, each of which starts with an equal
/// part.
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

/// Turns the cost of exchanging activations into the cost of exchanging gradients.
SplitCost of_weights(SplitCost cost) {
  std::swap(cost.activations_s, cost.weights_s);
  return cost;
}

/// Computing time of the slowest peer. With `factors`, every peer computes the gradients of all
/// samples.
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

/// The fraction of a unit that a share's slices contain. With S slices and G grains, slice j begins
/// with grain j G / S, rounded up.
double part_of(const SplitUnit& unit, const SplitShare& share, std::size_t slices) {
  const auto grain = [&](std::size_t slice) { return (slice * unit.grains + slices - 1) / slices; };
  return real(grain(share.end) - grain(share.begin)) / real(unit.grains);
}

/// One peer's part of `whole`, a figure of the layer such as its number of weights: the peer's
/// slices of each unit, and everything that is in no unit.
double held_part(const SplitLayer& layer, const SplitShare& share, double whole,
                 double SplitUnit::*figure) {
  for (const SplitUnit& unit : layer.units) {
    whole -= (1 - part_of(unit, share, layer.slices)) * unit.*figure;
  }
  return whole;
}

/// The cost of the slowest block in a pass: its computing and its internal exchanges.
SplitCost slices_pass_cost(const SplitLayer& layer, const SplitState& state,
                           const SplitGroup& group, const SplitBatch& batch, GatherRounds rounds) {
  const auto samples = real(batch.of_pass());
  // If a stage has several blocks, we do not know which peers each has, so take the group's worst
  // link.
  const SplitLink& link = group.link();
  SplitCost exchanges;
  for (const SplitUnit& unit : layer.units) {
    const double edges = unit.edges * real(state.ways - 1);
    for (const double floats : {unit.outputs, unit.inputs, edges, edges}) {
      if (floats > 0) exchanges += times(gather(samples * floats, state.ways, link, rounds), 2);
    }
    for (const double floats : {unit.statistics * real(state.ways), unit.statistics}) {
      if (floats > 0) exchanges += times(gather(floats, state.ways, link, rounds), 2);
    }
  }
  if (state.ways > 1 && layer.handed_out > 0) {
    exchanges += messages(1, real(state.ways - 1) * samples * layer.handed_out, link);
  }
  SplitCost slowest;
  const std::vector<SplitShare> shares = shares_of(layer, state, group, batch);
  for (std::size_t i = 0; i < group.size(); ++i) {
    const double operations = held_part(layer, shares[i], layer.operations, &SplitUnit::operations);
    SplitCost pass = exchanges;
    pass.compute_s = passes * samples * operations / group.speeds[i];
    pass = times(pass, real(shares[i].micro_batches));
    if (i == 0 || pass.seconds() > slowest.seconds()) slowest = pass;
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

/// True if, after the first layer, each peer holds what it needs for the second one.
bool is_in_place(const SplitState& from, const SplitState& to, bool same_group) {
  if (!same_group || from.ways != to.ways) return false;
  return from.ways == 1 || from.kind == to.kind;
}

/// Where strips continue from one unit of a stage to the next, removes the sums between the two
/// units, which are not needed. All other units exchange no edges and no statistics.
void join_strips(std::vector<SplitLayer>& stage) {
  SplitUnit* before = nullptr;
  for (SplitLayer& layer : stage) {
    for (SplitUnit& unit : layer.units) {
      if (!unit.takes_strips || before == nullptr) {
        unit.edges = 0;
        unit.statistics = 0;
      } else {
        before->outputs = 0;
        unit.inputs = 0;
      }
      before = &unit;
    }
  }
}

}  // namespace

std::string_view to_string(SplitKind kind) {
  constexpr std::array<std::string_view, 5> names{"samples", "factors", "model", "rows", "slices"};
  return names[static_cast<std::size_t>(kind)];
}

double SplitLayer::sliced_weights() const {
  double sum = 0;
  for (const SplitUnit& unit : units) sum += unit.weights;
  return sum;
}

SplitCost& SplitCost::operator+=(const SplitCost& other) {
  compute_s += other.compute_s;
  activations_s += other.activations_s;
  weights_s += other.weights_s;
  bytes += other.bytes;
  return *this;
}

std::vector<SplitLayer> in_stage(std::span<const SplitLayer> layers, std::size_t first,
                                 std::size_t last) {
  std::vector<SplitLayer> own(layers.begin() + static_cast<std::ptrdiff_t>(first),
                              layers.begin() + static_cast<std::ptrdiff_t>(last));
  for (std::size_t i = 0; i + 1 < own.size(); ++i) {
    const std::size_t hidden = own[i].pair_grains;
    if (hidden == 0) continue;
    own[i].units.front().grains = hidden;
    own[i].units.front().outputs = 0;
    ++i;
    own[i].units.front().grains = hidden;
    own[i].units.front().inputs = 0;
  }
  join_strips(own);
  if (first > 0) return own;
  own.front().handed_out = own.front().inputs;
  const auto trained =
      std::ranges::find_if(own, [](const SplitLayer& layer) { return layer.weights > 0; });
  if (trained != own.end() && trained->begins_shared) trained->units.front().inputs = 0;
  return own;
}

std::vector<SplitState> states_of(const SplitLayer& layer, const SplitGroup& group,
                                  std::size_t index, const SplitBatch& batch) {
  std::vector<SplitState> possible{{SplitKind::samples, index, 1}};
  if (group.size() > 1) {
    // The factors cover all samples of a step, so a step must have a single micro-batch.
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
  const bool by_slices = state.kind == SplitKind::slices;
  std::vector<double> blocks;
  for (std::size_t at = 0; at < group.size(); at += state.ways) {
    blocks.push_back(std::accumulate(begin + static_cast<std::ptrdiff_t>(at),
                                     begin + static_cast<std::ptrdiff_t>(at + state.ways), 0.0));
  }
  std::vector<std::size_t> samples;
  if (!by_slices) samples = largest_remainders(batch.of_pass(), blocks);
  const auto count = static_cast<std::uint32_t>(batch.micro_batches);
  std::vector<std::uint32_t> turns(blocks.size(), count);
  if (by_slices) turns = batch_shares(blocks, count, count);
  const std::size_t grains = state.kind == SplitKind::rows    ? layer.rows
                             : state.kind == SplitKind::model ? layer.model_grains
                                                              : 1;
  std::vector<SplitShare> shares;
  for (std::size_t at = 0; at < group.size(); at += state.ways) {
    const std::size_t block = at / state.ways;
    const auto speeds = std::span(group.speeds).subspan(at, state.ways);
    std::size_t next = 0;
    if (by_slices && layer.units.empty()) {
      shares.insert(shares.end(), state.ways, {batch.of_pass(), 0, 0, turns[block]});
      continue;
    }
    if (by_slices) {
      const auto slices = static_cast<std::uint32_t>(layer.slices);
      for (const std::uint32_t part : batch_shares(speeds, slices, slices)) {
        shares.push_back({batch.of_pass(), next, next + part, turns[block]});
        next += part;
      }
      continue;
    }
    for (const std::size_t part : largest_remainders(grains, speeds)) {
      shares.push_back({samples[block], next, next + part, turns[block]});
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
  SplitCost pass;
  if (state.kind != SplitKind::slices) {
    pass.compute_s = slowest_compute(layer, state, group, batch);
  }
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
    case SplitKind::slices: {
      const double sliced = state.ways > 1 ? layer.sliced_weights() : 0;
      if (layer.weights > sliced) {
        sums += times(gather(layer.weights - sliced, group.size(), link, rounds), 2);
      }
      if (sliced > 0) sums += times(gather(sliced / real(state.ways), blocks, link, rounds), 2);
      return slices_pass_cost(layer, state, group, batch, rounds) += of_weights(sums);
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
  // If the first layer is shared by `model` and gathers its outputs, all members of its block have
  // them.
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
    if (state.kind == SplitKind::slices) {
      // Members have all outputs, except in strips and between the two layers of a pair, where each
      // has only its part.
      const bool is_inside = !layer.units.empty() &&
                             (layer.units.back().outputs == 0 || layer.units.back().has_strips);
      const double part = is_inside ? part_of(layer.units.back(), share, layer.slices) : 1;
      bytes.push_back(bytes_per_weight *
                          held_part(layer, share, layer.weights, &SplitUnit::weights) +
                      float_bytes * real(share.samples * batch.in_flight) * layer.outputs * part);
      continue;
    }
    const bool by_model = state.kind == SplitKind::model;
    const bool by_rows = state.kind == SplitKind::rows;
    const double part = by_model  ? real(share.end - share.begin) / real(layer.model_grains)
                        : by_rows ? real(share.end - share.begin) / real(layer.rows)
                                  : 1;
    // With `model`, the inputs are gathered. So are the outputs, unless they stay where they are
    // computed.
    const double kept =
        by_model ? layer.inputs + (layer.merge == OutputMerge::none ? part : 1.0) * layer.outputs
                 : layer.outputs * part;
    bytes.push_back(bytes_per_weight * layer.weights * (by_model ? part : 1.0) +
                    float_bytes * real(share.samples * batch.in_flight) * kept);
  }
  return bytes;
}

}  // namespace gv
