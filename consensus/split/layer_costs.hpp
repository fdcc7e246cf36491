// Predicts the cost of a layer when a group of peers shares its work in one of several ways.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "consensus/split/split_site.hpp"

namespace gv {

/// How the work of a layer is shared.
enum class SplitKind {
  samples,  ///< Each peer has the whole layer and some of the samples; gradients are summed.
  factors,  ///< Like `samples`, but the gradient of a dense layer is sent as its two factors.
  model,    ///< Each peer has some outputs, heads or channels, for all samples.
  rows,     ///< Each peer has the whole layer and some rows of every image.
  /// As in a running pipeline, blocks take turns with micro-batches. Each member of a block holds
  /// slices of the layer's units, and everything that is in no unit.
  slices
};
std::string_view to_string(SplitKind kind);

/// What the members of a group do with the outputs of a layer that they share by `model`.
enum class OutputMerge {
  gather,  ///< Each member has some of the outputs, and they are gathered.
  /// Each member has a summand of every output, as with a pair of layers or heads of attention.
  sum,
  none  ///< The outputs stay where they are, as with a loss that is computed in parts.
};

/// A part of a layer that the members of a group divide in a running pipeline. They sum their
/// results.
struct SplitUnit {
  double operations = 0;   ///< Operations of the layer that members divide.
  double weights = 0;      ///< Weights of the layer that members divide.
  std::size_t grains = 1;  ///< Number of pieces. Slices consist of whole pieces.
  double inputs = 0;       ///< Floats that members sum in a backward pass; 0 if none.
  double outputs = 0;      ///< Floats that members sum in a forward pass; 0 if none.
  /// Floats that members sum in each direction for every cut between two strips. They are the rows
  /// of images at the strips' edges.
  double edges = 0;
  /// Floats of a batch norm's statistics, for any number of samples. A forward sum holds them for
  /// every member, and a backward sum holds them once.
  double statistics = 0;
  bool has_strips = false;  ///< True if members divide rows of images, and each keeps its outputs.
  /// True if this unit continues the strips of the unit before it, provided that both are in one
  /// stage. If false, members have the whole inputs.
  bool takes_strips = false;

  friend bool operator==(const SplitUnit&, const SplitUnit&) = default;
};

/// The properties of a layer that determine its costs. All parts of a layer are shared in the same
/// way. Unless stated otherwise, figures count floats for one sample. All figures follow from the
/// shapes.
struct SplitLayer {
  std::string name;
  double operations = 0;  ///< Multiplications and additions forward; backward takes twice as many.
  double weights = 0;     ///< Parameters.
  double inputs = 0;
  double outputs = 0;
  /// True for a dense layer, whose gradient is the product of two factors.
  bool has_factors = false;
  std::size_t model_grains = 0;  ///< Pieces for `model`, such as outputs or heads; 0 if none.
  OutputMerge merge = OutputMerge::gather;
  std::size_t rows = 0;         ///< Rows of the layer's outputs; 0 if it cannot be cut by rows.
  double halo = 0;              ///< Floats that neighbouring strips send each other.
  double halo_messages = 0;     ///< Exchanges of the halo in a forward pass.
  bool may_begin_stage = true;  ///< False if a pipeline may not be cut before this layer.
  /// Index of an earlier layer whose table this layer uses, if any. Both must be shared in the same
  /// way.
  std::optional<std::size_t> tied_to;

  /// The units that the members of a group share, as if the layer were alone in its stage.
  std::vector<SplitUnit> units = {};
  std::size_t slices = 1;  ///< Number of slices into which each unit is cut.
  /// Number of hidden units of the pair that this layer forms with the next one if both are in one
  /// stage; 0 if it forms no pair. Each layer of a pair has one SplitUnit.
  std::size_t pair_grains = 0;
  bool begins_shared = false;  ///< True if the layer's first parameters are in a unit.
  /// Floats that the first member of a block sends to every other member; set by in_stage().
  double handed_out = 0;

  /// Weights that the members of a group divide.
  double sliced_weights() const;
  friend bool operator==(const SplitLayer&, const SplitLayer&) = default;
};

/// Layers [first, last) as `slices` shares them in one stage. Pairs are formed from the first layer
/// on. Sums that are unnecessary inside pairs and continued strips are left out. In the first
/// stage, the gradient of the inputs is not summed, and the first member of a block draws the
/// samples for all members.
std::vector<SplitLayer> in_stage(std::span<const SplitLayer> layers, std::size_t first,
                                 std::size_t last);

/// One way to share a layer. The group consists of blocks of `ways` consecutive peers. Each block
/// takes its part of the samples, and its members share the layer by `model`, `rows` or `slices`.
/// With `samples` and `factors`, every block is one peer.
struct SplitState {
  SplitKind kind = SplitKind::samples;
  std::size_t group = 0;  ///< Index in the list of groups.
  std::size_t ways = 1;

  friend bool operator==(const SplitState&, const SplitState&) = default;
};

/// Seconds of a step, and the bytes that the busiest peer sends in it.
struct SplitCost {
  double compute_s = 0;
  double activations_s = 0;  ///< Exchanges inside forward and backward passes.
  double weights_s = 0;      ///< Sums of gradients.
  double bytes = 0;

  double seconds() const { return compute_s + activations_s + weights_s; }
  SplitCost& operator+=(const SplitCost& other);
};

/// The samples of a step, in micro-batches of equal size that are computed one after another.
struct SplitBatch {
  std::size_t samples = 1;
  std::size_t micro_batches = 1;
  std::size_t in_flight = 1;  ///< Micro-batches whose activations a peer keeps at once.

  std::size_t of_pass() const { return samples / micro_batches; }
};

/// The ways other than `slices` in which this group can share the layer so that every peer gets a
/// part. `index` is the group's index in the list of groups.
std::vector<SplitState> states_of(const SplitLayer& layer, const SplitGroup& group,
                                  std::size_t index, const SplitBatch& batch);

/// The cost of a layer in this state: the slowest peer's computing, exchanges inside the layer, and
/// the sum of its gradients. Let g(n, q) = rounds(q) latency + 4 n (q - 1) / (q bandwidth) be the
/// time to gather n floats among q peers. With p peers in the group, r peers and s samples in a
/// block, and W weights in the layer, the exchanges of a step take
///
///   samples   2 g(W, p)                      model     g(s outputs, r) or twice that for a sum,
///   factors   g(samples (inputs + outputs), p)         and 2 g(W / r, p / r)
///   rows      2 halo exchanges, 2 g(W, p)
///   slices    2 g(s outputs, r), 2 g(s inputs, r) and 4 g(s edges (r - 1), r) for each unit,
///             2 g(statistics r, r) and 2 g(statistics, r) for a batch norm in strips,
///             2 g(common W, p), 2 g(sliced W / r, p / r)
///
/// With `slices`, a block takes whole micro-batches, as many as its speed allows. The layer must
/// come from in_stage(), and blocks of more than one peer must be equally fast.
///
/// (Gholami 2018, and Xie 2016 for `factors`, where every peer multiplies the factors of all
/// samples.)
SplitCost layer_cost(const SplitLayer& layer, const SplitState& state, const SplitGroup& group,
                     const SplitBatch& batch, GatherRounds rounds);

/// The cost of moving `floats` activations per sample from a layer in state `from` to the next
/// layer in state `to`, and their gradients back. `both` is the union of the two groups. If the
/// second layer is shared by `model`, its inputs are gathered and their gradients summed, which
/// takes as long as one sum.
SplitCost edge_cost(double floats, const SplitState& from, const SplitGroup& from_group,
                    const SplitState& to, const SplitGroup& to_group, const SplitGroup& both,
                    const SplitBatch& batch, GatherRounds rounds);

/// Bytes that each peer of the group needs for the layer: parameters, gradients, optimiser state
/// and activations. The first three take `bytes_per_weight` for each parameter.
std::vector<double> layer_memory(const SplitLayer& layer, const SplitState& state,
                                 const SplitGroup& group, const SplitBatch& batch,
                                 double bytes_per_weight);

/// One peer's part of a layer: samples of a pass, and grains, rows or slices of the layer.
struct SplitShare {
  std::size_t samples = 0;
  std::size_t begin = 0;  ///< First grain, row or slice.
  std::size_t end = 0;
  /// Micro-batches in a step; with `slices`, only those of the peer's block.
  std::size_t micro_batches = 0;
};
std::vector<SplitShare> shares_of(const SplitLayer& layer, const SplitState& state,
                                  const SplitGroup& group, const SplitBatch& batch);

}  // namespace gv
