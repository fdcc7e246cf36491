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

  /// In messages, consecutive slices that a peer holds in the same way are one holding. packed()
  /// joins them. unpacked() is the inverse, and leaves out parts that do not exist.
  std::vector<StageHolding> packed(std::vector<StageHolding> holdings) const;
  std::vector<StageHolding> unpacked(const std::vector<StageHolding>& holdings) const;
  /// True if a holding in a message names existing parts.
  bool names(const StageHolding& holding) const;

 private:
  std::vector<std::uint32_t> stage_of_;  ///< The stage of each part.
  std::vector<Range> slices_;            ///< The slices of each stage.
};

}  // namespace gv
