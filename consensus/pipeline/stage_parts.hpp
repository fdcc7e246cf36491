// Numbers the parts of stages that peers hold, ask for and send by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/range.hpp"
#include "consensus/message/message.hpp"

namespace gv {

/// The first parts are the stages. Such a part is all of a stage or, if members of a group share
/// the stage, what all of them have. After these come the slices of each stage that groups share. A
/// slice is the same for groups of any size, and each member has some consecutive slices.
class StageParts {
 public:
  StageParts() = default;
  /// The number of slices of each stage.
  explicit StageParts(const std::vector<std::size_t>& slices);

  std::uint32_t count() const { return static_cast<std::uint32_t>(stage_of_.size()); }
  std::uint32_t stages() const { return static_cast<std::uint32_t>(slices_.size()); }
  std::uint32_t stage_of(std::uint32_t part) const { return stage_of_[part]; }
  bool is_slice(std::uint32_t part) const { return part >= stages(); }
  std::size_t slice_of(std::uint32_t part) const { return part - slices_[stage_of_[part]].begin; }
  /// The slices of a stage, as parts.
  const Range& slices_of(std::uint32_t stage) const { return slices_[stage]; }
  bool has_slices(std::uint32_t stage) const { return !slices_[stage].empty(); }

  /// Messages write a run of equally held slices as one holding. `packed` joins such runs, and
  /// `unpacked` is the inverse, without parts that do not exist.
  std::vector<StageHolding> packed(std::vector<StageHolding> holdings) const;
  std::vector<StageHolding> unpacked(const std::vector<StageHolding>& holdings) const;
  /// True if a holding in a message names existing parts.
  bool names(const StageHolding& holding) const;

 private:
  std::vector<std::uint32_t> stage_of_;  ///< The stage of each part.
  std::vector<Range> slices_;            ///< The slices of each stage.
};

}  // namespace gv
