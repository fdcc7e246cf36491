// Finds the best partition by dynamic programming over (stage, layers done, peers used, peers of
// the last stage).
#include "consensus/pipeline/stage_partition.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/check.hpp"

namespace gv {
namespace {

constexpr double impossible = std::numeric_limits<double>::infinity();

/// With more peers than this, the search does not try all their orders.
constexpr std::size_t exact_peers_max = 5;

/// The costs of any stage, computed from its layers and peers.
class Costs {
 public:
  Costs(const std::vector<LayerCost>& layers, const PipelineSite& site,
        const PartitionOptions& options)
      : layers_(layers), site_(site), options_(options) {}

  PlannedStage stage(std::size_t number, std::size_t first_layer, std::size_t end_layer,
                     std::size_t first_peer, std::size_t end_peer) const {
    PlannedStage stage{first_layer, end_layer, first_peer, end_peer};
    double seconds = 0;
    double parameters = 0;
    double kept = 0;
    for (std::size_t l = first_layer; l < end_layer; ++l) {
      const double again = options_.recomputes ? layers_[l].forward_s : 0;
      seconds += layers_[l].forward_s + again + layers_[l].backward_s;
      parameters += layers_[l].parameter_bytes;
      kept += layers_[l].kept_bytes;
    }
    double speed = 0;
    for (std::size_t p = first_peer; p < end_peer; ++p) speed += site_.speeds[p];
    stage.compute_s = speed > 0 ? seconds / speed : impossible;
    const auto in_flight = static_cast<double>(in_flight_max(options_.kind, options_.stages, number,
                                                             options_.micro_batches,
                                                             options_.accumulate, options_.ahead));
    const auto versions = static_cast<double>(versions_max(options_.kind, options_.stages, number));
    // With recomputation, only the micro-batch that is being recomputed has all its activations in
    // memory.
    const double input = first_layer > 0 ? layers_[first_layer - 1].output_bytes : 0;
    const double activations = options_.recomputes ? kept + in_flight * input : in_flight * kept;
    stage.memory_bytes = (versions + options_.state_per_parameter) * parameters + activations;
    return stage;
  }

  bool fits(const PlannedStage& stage) const {
    if (site_.memory_bytes.empty()) return true;
    for (std::size_t p = stage.first_peer; p < stage.end_peer; ++p) {
      if (stage.memory_bytes > site_.memory_bytes[p]) return false;
    }
    return true;
  }

  /// Seconds that a transfer between two stages takes.
  double transfer(const PlannedStage& from, const PlannedStage& to) const {
    if (site_.seconds_per_byte.empty()) return 0;
    double slowest = 0;
    for (std::size_t a = from.first_peer; a < from.end_peer; ++a) {
      for (std::size_t b = to.first_peer; b < to.end_peer; ++b) {
        slowest = std::max({slowest, site_.seconds_per_byte[a][b], site_.seconds_per_byte[b][a]});
      }
    }
    const std::size_t links =
        std::min(from.end_peer - from.first_peer, to.end_peer - to.first_peer);
    return layers_[from.end_layer - 1].output_bytes * slowest / static_cast<double>(links);
  }

  /// Seconds that the slower of a stage and the boundary after it takes for each micro-batch, or
  /// both together if they do not overlap.
  double bottleneck(const PlannedStage& stage) const {
    return options_.overlaps ? std::max(stage.compute_s, stage.transfer_s)
                             : stage.compute_s + 2 * stage.transfer_s;
  }

 private:
  const std::vector<LayerCost>& layers_;
  const PipelineSite& site_;
  const PartitionOptions& options_;
};

class Search {
 public:
  Search(const std::vector<LayerCost>& layers, const PipelineSite& site,
         const PartitionOptions& options)
      : costs_(layers, site, options),
        stages_(options.stages),
        layers_(layers.size()),
        peers_(site.speeds.size()),
        spare_layers_(layers_ - stages_),
        spare_peers_(peers_ - stages_),
        best_(stages_ * (spare_layers_ + 1) * (spare_peers_ + 1) * (spare_peers_ + 1)) {}

  std::optional<StagePartition> run() {
    // Goes from the last stage to the first, so that the partition with the earliest first cut wins
    // a tie.
    for (std::size_t number = stages_; number-- > 0;) {
      for (std::size_t layer = number; layer + stages_ - number <= layers_; ++layer) {
        for (std::size_t peer = number; peer + stages_ - number <= peers_; ++peer) {
          fill(number, layer, peer);
        }
      }
    }
    return read_out();
  }

 private:
  /// The best way to place stage `number` and all later stages, given their first layer, their
  /// first peer, and the end of the peers of stage `number`.
  struct Best {
    double seconds = impossible;
    PlannedStage stage;
    std::size_t next_end_peer = 0;
  };

  /// Every stage has at least one layer and one peer. So `layer` and `peer` are at least `number`,
  /// and exceed it by at most the spare layers and peers.
  Best& best(std::size_t number, std::size_t layer, std::size_t peer, std::size_t end_peer) {
    std::size_t at = number * (spare_layers_ + 1) + (layer - number);
    at = at * (spare_peers_ + 1) + (peer - number);
    return best_[at * (spare_peers_ + 1) + (end_peer - peer - 1)];
  }

  void fill(std::size_t number, std::size_t layer, std::size_t peer) {
    const std::size_t behind = stages_ - 1 - number;
    for (std::size_t end_peer = peer + 1; end_peer + behind <= peers_; ++end_peer) {
      Best& found = best(number, layer, peer, end_peer);
      if (behind == 0) {
        if (end_peer < peers_) continue;
        const PlannedStage stage = costs_.stage(number, layer, layers_, peer, end_peer);
        if (costs_.fits(stage)) found = {costs_.bottleneck(stage), stage, 0};
        continue;
      }
      for (std::size_t end_layer = layer + 1; end_layer + behind <= layers_; ++end_layer) {
        PlannedStage stage = costs_.stage(number, layer, end_layer, peer, end_peer);
        if (!costs_.fits(stage)) continue;
        for (std::size_t next_end = end_peer + 1; next_end + behind - 1 <= peers_; ++next_end) {
          const Best& rest = best(number + 1, end_layer, end_peer, next_end);
          if (rest.seconds == impossible) continue;
          stage.transfer_s = costs_.transfer(stage, rest.stage);
          const double seconds = std::max(costs_.bottleneck(stage), rest.seconds);
          if (seconds < found.seconds) found = {seconds, stage, next_end};
        }
      }
    }
  }

  std::optional<StagePartition> read_out() {
    StagePartition partition{.seconds = impossible};
    std::size_t end_peer = 0;
    for (std::size_t end = 1; end + stages_ - 1 <= peers_; ++end) {
      const double seconds = best(0, 0, 0, end).seconds;
      if (seconds >= partition.seconds) continue;
      partition.seconds = seconds;
      end_peer = end;
    }
    if (partition.seconds == impossible) return std::nullopt;
    std::size_t layer = 0;
    std::size_t peer = 0;
    for (std::size_t number = 0; number < stages_; ++number) {
      const Best& found = best(number, layer, peer, end_peer);
      partition.stages.push_back(found.stage);
      layer = found.stage.end_layer;
      peer = end_peer;
      end_peer = found.next_end_peer;
    }
    return partition;
  }

  Costs costs_;
  std::size_t stages_;
  std::size_t layers_;
  std::size_t peers_;
  std::size_t spare_layers_;  ///< Number of layers beyond one for each stage.
  std::size_t spare_peers_;   ///< Number of peers beyond one for each stage.
  std::vector<Best> best_;
};

PipelineSite in_order(const PipelineSite& site, const std::vector<std::size_t>& order) {
  PipelineSite ordered;
  for (const std::size_t peer : order) {
    ordered.speeds.push_back(site.speeds[peer]);
    if (!site.memory_bytes.empty()) ordered.memory_bytes.push_back(site.memory_bytes[peer]);
    if (site.seconds_per_byte.empty()) continue;
    std::vector<double> row;
    for (const std::size_t other : order) row.push_back(site.seconds_per_byte[peer][other]);
    ordered.seconds_per_byte.push_back(std::move(row));
  }
  return ordered;
}

}  // namespace

std::optional<StagePartition> partition_stages(const std::vector<LayerCost>& layers,
                                               const PipelineSite& site,
                                               const PartitionOptions& options) {
  check(options.stages > 0, "a model has at least one stage");
  if (layers.size() < options.stages || site.speeds.size() < options.stages) return std::nullopt;
  return Search(layers, site, options).run();
}

std::optional<OrderedPartition> best_partition(const std::vector<LayerCost>& layers,
                                               const PipelineSite& site,
                                               const PartitionOptions& options) {
  std::vector<std::size_t> order(site.speeds.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::optional<OrderedPartition> best;
  const auto consider = [&] {
    auto partition = partition_stages(layers, in_order(site, order), options);
    if (!partition || (best && partition->seconds >= best->partition.seconds)) return false;
    best = {order, *std::move(partition)};
    return true;
  };
  if (order.size() <= exact_peers_max) {
    do {
      consider();
    } while (std::ranges::next_permutation(order).found);
    return best;
  }
  std::ranges::stable_sort(
      order, [&](std::size_t a, std::size_t b) { return site.speeds[a] > site.speeds[b]; });
  consider();
  for (bool improved = true; improved;) {
    improved = false;
    for (std::size_t a = 0; a < order.size(); ++a) {
      for (std::size_t b = a + 1; b < order.size(); ++b) {
        if (best) order = best->order;
        std::swap(order[a], order[b]);
        improved |= consider();
      }
    }
  }
  return best;
}

}  // namespace gv
