// Cuts a model into stages and assigns peers to them so that the slowest stage is fastest.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "consensus/pipeline/schedule.hpp"

namespace gv {

/// The costs of one layer for one micro-batch at a peer of speed 1.
struct LayerCost {
  double forward_s = 0;
  double backward_s = 0;
  double parameter_bytes = 0;
  double kept_bytes = 0;    ///< Activations that backward needs.
  double output_bytes = 0;  ///< Sent to the next layer; its gradient has the same size.
};

/// The peers that may carry stages, in the order of a chain; those of one stage are adjacent.
struct PipelineSite {
  std::vector<double> speeds;        ///< Of each peer.
  std::vector<double> memory_bytes;  ///< Of each peer; empty: unlimited.
  /// seconds_per_byte[a][b] from peer a to peer b; empty: links cost nothing.
  std::vector<std::vector<double>> seconds_per_byte;
};

struct PartitionOptions {
  std::size_t stages = 1;
  PipelineKind kind = PipelineKind::one_f_one_b;  ///< Decides how many activations are kept.
  std::size_t micro_batches = 1;
  std::size_t accumulate = 0;  ///< Between two updates of 2bw; at least `stages`.
  std::size_t ahead = 0;
  /// Bytes of gradient and optimiser state for each byte of parameters.
  double state_per_parameter = 2;
  bool recomputes = false;  ///< Keep only the inputs of stages and recompute the activations.
  /// Whether links transfer while peers compute; if not, their times add up.
  bool overlaps = true;
};

/// One stage: layers [first_layer, end_layer) on peers [first_peer, end_peer) of the site.
struct PlannedStage {
  std::size_t first_layer = 0;
  std::size_t end_layer = 0;
  std::size_t first_peer = 0;
  std::size_t end_peer = 0;
  double compute_s = 0;     ///< Forward and backward of a micro-batch, over all its peers.
  double transfer_s = 0;    ///< One way through the boundary behind it, over all its links.
  double memory_bytes = 0;  ///< At each of its peers.

  friend bool operator==(const PlannedStage&, const PlannedStage&) = default;
};

struct StagePartition {
  std::vector<PlannedStage> stages;
  double seconds = 0;  ///< For each micro-batch: the time of the slowest stage or boundary.
};

/// The partition with the least `seconds` for peers in the given order, with every layer and every
/// peer in one stage; of equal ones the one whose first cut comes first. Empty if no partition fits
/// the memory, or there are fewer layers or peers than stages.
///
/// Peers of one stage share its micro-batches by their speeds: together they take its work divided
/// by the sum of speeds. A boundary between stages with r and r' peers uses min(r, r') links at
/// once, each as slow as the slowest between the two stages.
///
/// (Dynamic programming as in PipeDream, Narayanan 2019, but transfers are always counted, speeds
/// may differ, and memory depends on the stage's position: S L^2 P^3 steps for S stages, L layers,
/// P peers.)
std::optional<StagePartition> partition_stages(const std::vector<LayerCost>& layers,
                                               const PipelineSite& site,
                                               const PartitionOptions& options);

/// The best partition over all orders of the peers. Up to 5 peers all orders are tried. Above that
/// two peers are swapped at a time, from the order of falling speed on, so the result is at least
/// as good as that order. `order[i]` is the peer at position i of the partition.
struct OrderedPartition {
  std::vector<std::size_t> order;
  StagePartition partition;
};
std::optional<OrderedPartition> best_partition(const std::vector<LayerCost>& layers,
                                               const PipelineSite& site,
                                               const PartitionOptions& options);

}  // namespace gv
