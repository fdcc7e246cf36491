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
  factors,  ///< The same, but the gradient of a dense layer travels as its two factors.
  model,    ///< Each peer has some outputs, heads or channels, for all samples.
  rows,     ///< Each peer has the whole layer and some rows of every image.
  slices    ///< As a running pipeline does: blocks take turns with micro-batches, and the members
            ///< of a block hold slices of the layer's units, and all of what is in no unit.
};
std::string_view to_string(SplitKind kind);

/// What the members of a group do with the outputs of a layer that they share by model.
enum class OutputMerge {
  gather,  ///< Each member has some of the outputs: a layer that is cut by its outputs.
  sum,     ///< Each member has a summand of all outputs: a pair of layers, or heads of attention.
  none     ///< The outputs stay where they are: a loss that is computed in parts.
};

/// Something in a layer that the members of a running group share. They sum what they compute.
struct SplitUnit {
  double operations = 0;   ///< Operations of the layer that they divide.
  double weights = 0;      ///< Weights of the layer that they divide.
  std::size_t grains = 1;  ///< Pieces, which slices consist of.
  double inputs = 0;       ///< Floats that members sum in a backward pass; 0: they do not.
  double outputs = 0;      ///< Floats that they sum in a forward pass; 0: they do not.
  /// Floats that they sum in each direction for every cut between two of them: rows of images that
  /// are at the edges of strips.
  double edges = 0;
  /// Floats for any number of samples, the statistics of a batch norm: a forward sum has them for
  /// every member, and a backward sum once.
  double statistics = 0;
  bool has_strips = false;  ///< True if they divide rows of images, and each keeps its outputs.
  /// True if the strips of the unit before it go on, if that is in the same stage. Else members
  /// have the whole inputs.
  bool takes_strips = false;
};

/// One layer that is shared as a whole, as far as its costs depend on it. Figures are for one
/// sample, in numbers of floats; they follow from the shapes.
struct SplitLayer {
  std::string name;
  double operations = 0;  ///< Multiplications and additions forward; backward takes twice as many.
  double weights = 0;     ///< Parameters.
  double inputs = 0;
  double outputs = 0;
  bool has_factors = false;      ///< True if it is a dense layer whose gradient has two factors.
  std::size_t model_grains = 0;  ///< Pieces for `model`, such as outputs or heads; 0: none.
  OutputMerge merge = OutputMerge::gather;
  std::size_t rows = 0;         ///< Rows of its outputs; 0 if it cannot be cut by rows.
  double halo = 0;              ///< Floats that neighbouring strips send each other.
  double halo_messages = 0;     ///< Exchanges of them in a forward pass.
  bool may_begin_stage = true;  ///< False if a pipeline may not be cut before it.
  /// Index of an earlier layer whose table it uses, if any; both must be shared in the same way.
  std::optional<std::size_t> tied_to;

  /// What the members of a group share, if no other layer is beside it.
  std::vector<SplitUnit> units = {};
  std::size_t slices = 1;  ///< Number of slices into which each unit is cut.
  /// Hidden units of the pair that it makes with the next layer, if that is in its stage; 0: none.
  /// Then both have one unit.
  std::size_t pair_grains = 0;
  bool begins_shared = false;  ///< True if its first parameters are in a unit.
  /// Floats that the first member of a block sends to each other one; set by in_stage().
  double handed_out = 0;
};

/// Layers [first, last) as `slices` shares them in a stage: pairs are made from its first layer on,
/// and the sums that they save are left out, as are those that strips save that go on. In the first
/// stage the gradient of the inputs is not summed, and the first member of a block draws the
/// samples for all.
std::vector<SplitLayer> in_stage(std::span<const SplitLayer> layers, std::size_t first,
                                 std::size_t last);

/// One way to share a layer. The group consists of blocks of `ways` peers, which follow each other
/// in its order. A block carries its part of the samples, and its members share the layer by model,
/// rows or slices. With `samples` and `factors` every block is one peer.
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

/// Samples of a step, in micro-batches of equal size that are passed one after the other.
struct SplitBatch {
  std::size_t samples = 1;
  std::size_t micro_batches = 1;
  std::size_t in_flight = 1;  ///< Micro-batches whose activations a peer keeps at once.

  std::size_t of_pass() const { return samples / micro_batches; }
};

/// The ways in which this group can share the layer, but `slices`: those in which every peer gets
/// something. `group` is its index in the list of groups.
std::vector<SplitState> states_of(const SplitLayer& layer, const SplitGroup& group,
                                  std::size_t index, const SplitBatch& batch);

/// The cost of a layer in this state: the slowest peer's computing, exchanges inside the layer, and
/// the sum of its gradients. With g(n, q) = rounds(q) latency + 4 n (q - 1) / (q bandwidth) for the
/// gather of n floats among q peers, a block of r of the group's p peers, its s samples and
/// L layers' weights W, a step takes
///
///   samples   2 g(W, p)                      model     g(s outputs, r) or twice that for a sum,
///   factors   g(samples (inputs + outputs), p)         and 2 g(W / r, p / r)
///   rows      2 halo exchanges, 2 g(W, p)
///   slices    2 g(s outputs, r), 2 g(s inputs, r) and 4 g(s edges (r - 1), r) for each unit,
///             2 g(statistics r, r) and 2 g(statistics, r) for a batch norm in strips,
///             2 g(common W, p), 2 g(sliced W / r, p / r)
///
/// With `slices` a block passes whole micro-batches, and as many as its speed allows. The layer is
/// one of in_stage(), and blocks of more than one peer are equally fast.
///
/// (Gholami 2018, and Xie 2016 for factors, whose products every peer computes for all samples.)
SplitCost layer_cost(const SplitLayer& layer, const SplitState& state, const SplitGroup& group,
                     const SplitBatch& batch, GatherRounds rounds);

/// The cost of bringing the activations between two layers from the first one's state to the second
/// one's, and their gradient back. Before a layer that is shared by model, inputs are gathered and
/// their gradients summed, which together takes as long as a sum of both.
SplitCost edge_cost(double floats, const SplitState& from, const SplitGroup& from_group,
                    const SplitState& to, const SplitGroup& to_group, const SplitGroup& both,
                    const SplitBatch& batch, GatherRounds rounds);

/// Bytes of parameters, gradients, optimiser state and activations of the layer at each peer of the
/// group, given the bytes that are kept for each parameter.
std::vector<double> layer_memory(const SplitLayer& layer, const SplitState& state,
                                 const SplitGroup& group, const SplitBatch& batch,
                                 double bytes_per_weight);

/// The part of each peer of the group: samples of a pass, and grains, rows or slices of the layer.
struct SplitShare {
  std::size_t samples = 0;
  std::size_t begin = 0;  ///< First grain, row or slice.
  std::size_t end = 0;
  std::size_t micro_batches = 0;  ///< In a step; with `slices` those of its block.
};
std::vector<SplitShare> shares_of(const SplitLayer& layer, const SplitState& state,
                                  const SplitGroup& group, const SplitBatch& batch);

}  // namespace gv
