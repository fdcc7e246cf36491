// Cuts a model into stages and assigns peers to them so that the slowest stage is as fast as
// possible.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "consensus/pipeline/schedule.hpp"

namespace gv {

/// The cost of one layer for one micro-batch on a peer of speed 1.
struct LayerCost {
  double forward_s = 0;
  double backward_s = 0;
  double parameter_bytes = 0;
  double kept_bytes = 0;    ///< Bytes of activations kept for the backward pass.
  double output_bytes = 0;  ///< Bytes sent to the next layer. Their gradient has the same size.
};

/// The peers that may carry stages, in the order of the chain. Peers of one stage are adjacent.
struct PipelineSite {
  std::vector<double> speeds;        ///< Speed of each peer.
  std::vector<double> memory_bytes;  ///< Memory of each peer. Empty means unlimited.
  /// seconds_per_byte[a][b] is the cost of sending from peer a to peer b. Empty means that links
  /// cost nothing.
  std::vector<std::vector<double>> seconds_per_byte;
};

struct PartitionOptions {
  std::size_t stages = 1;
  PipelineKind kind = PipelineKind::one_f_one_b;  ///< Determines how many activations are kept.
  std::size_t micro_batches = 1;
  /// Number of micro-batches between two updates of 2bw; at least `stages`.
  std::size_t accumulate = 0;
  std::size_t ahead = 0;
  /// Bytes of gradient and optimiser state for each byte of parameters.
  double state_per_parameter = 2;
  /// True if peers keep only the inputs of each stage and recompute the activations.
  bool recomputes = false;
  /// True if links transfer while peers compute. If false, the two times add up.
  bool overlaps = true;
};

/// One stage: layers [first_layer, end_layer) on peers [first_peer, end_peer) of the site.
struct PlannedStage {
  std::size_t first_layer = 0;
  std::size_t end_layer = 0;
  std::size_t first_peer = 0;
  std::size_t end_peer = 0;
  /// Seconds of computing for a micro-batch, forward and backward, shared by all peers of the
  /// stage.
  double compute_s = 0;
  /// Seconds to send a micro-batch, one way, over the boundary after this stage with all its links.
  double transfer_s = 0;
  double memory_bytes = 0;  ///< Memory that each peer of the stage needs.

  friend bool operator==(const PlannedStage&, const PlannedStage&) = default;
};

struct StagePartition {
  std::vector<PlannedStage> stages;
  double seconds = 0;  ///< Time for each micro-batch: the time of the slowest stage or boundary.
};

/// The partition with the smallest `seconds` for peers in the given order, with every layer and
/// every peer in exactly one stage. On a tie, the partition whose first cut comes first wins.
/// Returns nullopt if no partition fits the memory, or if there are fewer layers or peers than
/// stages.
///
/// The peers of a stage share its micro-batches in proportion to their speeds, so the stage takes
/// its work divided by the sum of the speeds. A boundary between stages with r and r' peers uses
/// min(r, r') links at once, each as slow as the slowest between the two stages.
///
/// (Dynamic programming as in PipeDream, Narayanan 2019, but transfers are always counted, speeds
/// may differ, and memory depends on the stage's position. Planning takes time proportional to S
/// L^2 P^3 for S stages, L layers and P peers, and memory proportional to S (L - S + 1)
/// (P - S + 1)^2.)
std::optional<StagePartition> partition_stages(const std::vector<LayerCost>& layers,
                                               const PipelineSite& site,
                                               const PartitionOptions& options);

/// The best partition over the orders of the peers. For up to 5 peers, all orders are tried. For
/// more, the search starts from the order of descending speed and swaps two peers at a time, so the
/// result is at least as good as for that order. `order[i]` is the peer at position i of the
/// partition.
struct OrderedPartition {
  std::vector<std::size_t> order;
  StagePartition partition;
};
std::optional<OrderedPartition> best_partition(const std::vector<LayerCost>& layers,
                                               const PipelineSite& site,
                                               const PartitionOptions& options);

}  // namespace gv
