// The steps in which a group makes a pass through a stage, and what its members sum in between.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "train/layers/plan.hpp"
#include "train/learner/group_place.hpp"

namespace gv {

class SlicedStage;

/// A convolution with fewer products of two numbers for a sample is computed by every member,
/// because exchanging rows would take longer.
inline constexpr std::size_t cut_products_min = std::size_t{1} << 16;

/// One step through a stage. Between two steps there are whole samples, or each member has a strip:
/// some rows of every image. A residual layer with something to share inside becomes a fork, its
/// layers, and a join, so that these are steps, too.
struct GroupStep {
  enum class Kind {
    whole,    ///< A layer that every member computes.
    unit,     ///< Layers that members share by model (layers_to_cut).
    fork,     ///< Passes its input on to the join as well.
    join,     ///< Adds the input of the fork.
    scatter,  ///< Takes from whole images the rows that the next layer reads.
    edges,    ///< Adds to the own strip the rows of others that the next layer reads.
    rows,     ///< Layers of which each member computes some rows without rows of the others.
    norm,     ///< A group norm or batch norm of which each computes some rows, with the statistics
              ///< of all.
    classes,  ///< The last dense layer by classes, and its loss (goes_by_classes).
    gather    ///< Puts whole images together from the strips of all members.
  };
  Kind kind = Kind::whole;
  std::vector<LayerPlan> layers;  ///< The layers. For scatter and edges those that read the rows;
                                  ///< empty if it is a join.
  SampleShape in{};
  SampleShape out{};
  bool is_strip = false;  ///< True if each member has only a strip of the output.
  std::size_t other = 0;  ///< fork, join: the number of the step at the other end.
};
std::vector<GroupStep> group_steps(const ModelPlan& plan);

/// What members have between two layers: whole samples, or strips. If the strips come from a
/// convolution whose rows they have exchanged, activations and pools after it need no exchange of
/// their own (follows_in_strip). They belong to its step; pools only if they leave a row for each
/// slice.
enum class MembersHave { samples, strips, strips_of_convolution };
/// The steps of some of a model's layers, from what members have to what they leave.
std::vector<GroupStep> group_steps(std::span<const LayerPlan> layers, MembersHave& between);
/// True if members sum after such a step, or backward before it.
bool is_summed(GroupStep::Kind kind, bool backward);
/// True for a batch norm in strips, whose sums are statistics of the batch. In tests members use
/// the running ones and sum nothing.
bool has_batch_statistics(const GroupStep& step);
/// True for the steps that give members the rows which the next layers read.
bool brings_rows(GroupStep::Kind kind);
/// The number of steps before the first one with parameters.
std::size_t first_trained(const std::vector<GroupStep>& steps);

/// The sums for one sample, one for each part of a pass except the last. `wants_d_inputs`: the
/// gradient of the stage's inputs is needed.
std::vector<GroupSum> group_sums(const SlicedStage& stage, bool backward, bool wants_d_inputs);

/// The rows that travel between members at each cut between slices before some layers: those that
/// windows on the other side of the cut read.
std::vector<Range> edge_rows(const SlicedStage& stage, std::span<const LayerPlan> readers,
                             std::span<const std::size_t> cuts);

/// How the members of a group with these cuts share `grains`: rows of an image or grains of a unit.
std::vector<Range> shares_of(const SlicedStage& stage, std::size_t grains,
                             std::span<const std::size_t> cuts);

/// The rows that a member with these slices reads to compute its rows of the last layer's outputs.
Range rows_to_read(const SlicedStage& stage, std::span<const LayerPlan> readers,
                   const Range& slices);

/// The rows of its inputs that each slice reads, if the stage begins with strips of them; otherwise
/// empty. A member with several slices reads the rows of its range_of_member().
std::vector<Range> rows_read_at_first(const SlicedStage& stage);

}  // namespace gv
