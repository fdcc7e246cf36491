// Where to cut a model into stages, and which peers carry each, so that the slowest is quickest.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "consensus/pipeline/schedule.hpp"

namespace gv {

/// What one layer costs for one micro-batch at a peer of speed 1.
struct LayerCost {
  double forward_s = 0;
  double backward_s = 0;
  double parameter_bytes = 0;
  double kept_bytes = 0;    ///< Activations that backward needs.
  double output_bytes = 0;  ///< What the next layer gets, and as much comes back.
};

/// The peers that may carry stages, in the order of a chain: those of one stage stand together.
struct PipelineSite {
  std::vector<double> speeds;        ///< Of each peer.
  std::vector<double> memory_bytes;  ///< Of each peer; empty: as much as is needed.
  /// seconds_per_byte[a][b] from peer a to peer b; empty: links cost nothing.
  std::vector<std::vector<double>> seconds_per_byte;
};

struct PartitionOptions {
  std::size_t stages = 1;
  PipelineKind kind = PipelineKind::one_f_one_b;  ///< Which decides how much must be kept.
  std::size_t micro_batches = 1;
  std::size_t accumulate = 0;  ///< Between two updates of 2bw; at least `stages`.
  std::size_t ahead = 0;
  /// Bytes beside each byte of a version of parameters: the gradient's and the optimiser's.
  double state_per_parameter = 2;
  bool recomputes = false;  ///< Keeps the inputs of stages alone and computes the rest again.
  /// Whether links work while peers compute; if not, their times add up.
  bool overlaps = true;
};

/// One stage: layers [first_layer, end_layer) on peers [first_peer, end_peer) of the site.
struct PlannedStage {
  std::size_t first_layer = 0;
  std::size_t end_layer = 0;
  std::size_t first_peer = 0;
  std::size_t end_peer = 0;
  double compute_s = 0;     ///< A micro-batch forward and back, shared by all its peers.
  double transfer_s = 0;    ///< One way through the boundary behind it, shared likewise.
  double memory_bytes = 0;  ///< At each of its peers.

  friend bool operator==(const PlannedStage&, const PlannedStage&) = default;
};

struct StagePartition {
  std::vector<PlannedStage> stages;
  double seconds = 0;  ///< What all wait for, for each micro-batch: the slowest stage or boundary.
};

/// The partition with the least `seconds` for peers in the order given, every layer in one stage
/// and every peer in one; of equals the one whose first cut comes first. Empty if no partition fits
/// the memory, or there are fewer layers or peers than stages.
///
/// Peers of one stage share its micro-batches by their speeds: together they take its work over the
/// sum of speeds. What passes a boundary of stages with r and r' peers goes over min(r, r') links
/// at once, each as slow as the slowest between the two.
///
/// (Dynamic programming as in PipeDream, Narayanan 2019, with the transfers always counted, peers
/// of unlike speed, and memory by the stage's place: S L^2 P^3 steps for S stages, L layers, P
/// peers.)
std::optional<StagePartition> partition_stages(const std::vector<LayerCost>& layers,
                                               const PipelineSite& site,
                                               const PartitionOptions& options);

/// The same over all orders of the peers: every one of them up to 5 peers, above that the best
/// found by exchanging two peers at a time from the order of falling speed, which is at least as
/// good as that order. `order[i]` is the peer at place i of the partition.
struct OrderedPartition {
  std::vector<std::size_t> order;
  StagePartition partition;
};
std::optional<OrderedPartition> best_partition(const std::vector<LayerCost>& layers,
                                               const PipelineSite& site,
                                               const PartitionOptions& options);

}  // namespace gv
