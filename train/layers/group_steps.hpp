// The steps in which a group makes a pass through a stage, and the sums that its members make.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "train/layers/plan.hpp"
#include "train/learner/group_place.hpp"

namespace gv {

class SlicedStage;

/// A convolution with fewer multiplications per sample than this is not shared: every member
/// computes all of it, because exchanging rows would take longer.
inline constexpr std::size_t cut_products_min = std::size_t{1} << 16;

/// One step through a stage. Between two steps, all members have whole samples, or each has a
/// strip: some rows of every image. A residual layer that contains a layer to share becomes a fork,
/// its layers, and a join, so that its layers are steps too.
struct GroupStep {
  enum class Kind {
    whole,    ///< A layer that every member computes.
    unit,     ///< Layers that members share by splitting the model (layers_to_cut).
    fork,     ///< Passes its input both to the next step and to the join.
    join,     ///< Adds the input of its fork to its own input.
    scatter,  ///< Takes from whole images the rows that the next layer reads.
    edges,    ///< Extends our own strip by the rows of other members that the next layer reads.
    rows,     ///< Layers of which each member computes some rows from the rows that it has.
    norm,     ///< A group norm or batch norm. Each member computes some rows, with the statistics
              ///< of all rows.
    classes,  ///< The last dense layer, shared by classes, and its loss (goes_by_classes).
    gather    ///< Joins the strips of all members into whole images.
  };
  Kind kind = Kind::whole;
  std::vector<LayerPlan> layers;  ///< The layers of the step. For scatter and edges, the layers
                                  ///< that read the rows; empty if a join reads them.
  SampleShape in{};
  SampleShape out{};
  bool is_strip = false;  ///< True if each member has only a strip of the output.
  std::size_t other = 0;  ///< Index of the join that belongs to a fork, or of the fork that belongs
                          ///< to a join.
};
std::vector<GroupStep> group_steps(const ModelPlan& plan);

/// The form in which members have the values between two layers: whole samples, or strips. If the
/// strips come from a convolution for which the members have exchanged rows, the activations and
/// pools after it need no further exchange (follows_in_strip). Such layers belong to the
/// convolution's step, except pools whose output has fewer rows than there are slices.
enum class MembersHave { samples, strips, strips_of_convolution };
/// Returns the steps of some of a model's layers. `between` is the form of the values before these
/// layers, and becomes the form after them.
std::vector<GroupStep> group_steps(std::span<const LayerPlan> layers, MembersHave& between);
/// True if a step of this kind has a sum in the forward pass or, if `backward`, in the backward
/// pass.
bool is_summed(GroupStep::Kind kind, bool backward);
/// True for a batch norm in strips, whose sums are statistics of the batch. In tests of the model,
/// members use the running statistics and sum nothing.
bool has_batch_statistics(const GroupStep& step);
/// True for the steps that give members the rows that the next layers read.
bool brings_rows(GroupStep::Kind kind);
/// The number of steps before the first one with parameters.
std::size_t first_trained(const std::vector<GroupStep>& steps);

/// Returns the sums of a pass for one sample, one after each part of the pass except the last.
/// `wants_d_inputs`: true if the gradient of the stage's inputs is needed.
std::vector<GroupSum> group_sums(const SlicedStage& stage, bool backward, bool wants_d_inputs);

/// Returns the rows that members exchange at each cut between slices, before the layers `readers`:
/// the rows that windows on the other side of the cut read.
std::vector<Range> edge_rows(const SlicedStage& stage, std::span<const LayerPlan> readers,
                             std::span<const std::size_t> cuts);

/// Divides `grains` grains of a unit, or as many rows of an image, among the members of a group
/// with these cuts. Returns each member's range.
std::vector<Range> shares_of(const SlicedStage& stage, std::size_t grains,
                             std::span<const std::size_t> cuts);

/// Returns the input rows that a member with these slices reads to compute its rows of the outputs
/// of the last layer in `readers`.
Range rows_to_read(const SlicedStage& stage, std::span<const LayerPlan> readers,
                   const Range& slices);

/// Returns the rows of the stage's inputs that each slice reads, if the stage begins with strips;
/// otherwise an empty list. A member with several slices reads the rows of its range_of_member().
std::vector<Range> rows_read_at_first(const SlicedStage& stage);

}  // namespace gv
