// Numbers the parts of stages that peers hold, request and send.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/range.hpp"
#include "consensus/message/message.hpp"

namespace gv {

/// Parts are numbered with stages first. The part of a stage is the whole stage or, if the members
/// of a group share the stage, only the content that all of them have. The slices of each stage
/// that groups share come next. A slice is the same for groups of any size, and each member has
/// some consecutive slices.
class StageParts {
 public:
  StageParts() = default;
  /// `slices` holds the number of slices of each stage.
  explicit StageParts(const std::vector<std::size_t>& slices);

  std::uint32_t count() const { return static_cast<std::uint32_t>(stage_of_.size()); }
  std::uint32_t stages() const { return static_cast<std::uint32_t>(slices_.size()); }
  std::uint32_t stage_of(std::uint32_t part) const { return stage_of_[part]; }
  bool is_slice(std::uint32_t part) const { return part >= stages(); }
  std::size_t slice_of(std::uint32_t part) const { return part - slices_[stage_of_[part]].begin; }
  /// The slices of a stage, as parts.
  const Range& slices_of(std::uint32_t stage) const { return slices_[stage]; }
  bool has_slices(std::uint32_t stage) const { return !slices_[stage].empty(); }

  /// In messages, consecutive slices that a peer holds in the same way form one holding, and
  /// consecutive slices that it gets from the same source form one assignment. packed() joins them.
  /// Assignments must be sorted by carrier and then by part. unpacked() is the inverse, and leaves
  /// out parts that do not exist.
  std::vector<StageHolding> packed(std::vector<StageHolding> holdings) const;
  std::vector<StageHolding> unpacked(const std::vector<StageHolding>& holdings) const;
  std::vector<StageAssignment> packed(const std::vector<StageAssignment>& assignments) const;
  std::vector<StageAssignment> unpacked(const std::vector<StageAssignment>& assignments) const;
  /// True if a holding or an assignment in a message names existing parts.
  bool names(const StageHolding& holding) const { return names(holding.stage); }
  bool names(const StageAssignment& assignment) const { return names(assignment.stage); }
  /// Number of parts in an assignment of a message.
  static std::size_t parts_in(const StageAssignment& assignment);

 private:
  bool names(std::uint32_t packed) const;

  std::vector<std::uint32_t> stage_of_;  ///< The stage of each part.
  std::vector<Range> slices_;            ///< The slices of each stage.
};

}  // namespace gv
