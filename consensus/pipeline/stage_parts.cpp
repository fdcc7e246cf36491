// Numbers slices after stages, and packs each run of consecutive slices into one number.
#include "consensus/pipeline/stage_parts.hpp"

#include <algorithm>
#include <tuple>

#include "base/check.hpp"

namespace gv {
namespace {

/// The low bits of a packed number hold the first part, and the high bits the number of parts that
/// follow it.
constexpr unsigned first_bits = 16;
constexpr std::uint32_t first_mask = (1U << first_bits) - 1;

/// The part after those that a packed number names.
std::uint32_t next_part(std::uint32_t packed) {
  return (packed & first_mask) + (packed >> first_bits) + 1;
}

}  // namespace

StageParts::StageParts(const std::vector<std::size_t>& slices) {
  for (std::uint32_t stage = 0; stage < slices.size(); ++stage) stage_of_.push_back(stage);
  for (std::uint32_t stage = 0; stage < slices.size(); ++stage) {
    const std::size_t begin = stage_of_.size();
    stage_of_.insert(stage_of_.end(), slices[stage], stage);
    slices_.push_back({begin, stage_of_.size()});
  }
  check(stage_of_.size() <= first_mask, "parts of stages can be numbered");
}

std::vector<StageHolding> StageParts::packed(std::vector<StageHolding> holdings) const {
  const bool has_slices = std::ranges::any_of(
      holdings, [this](const StageHolding& holding) { return is_slice(holding.stage); });
  if (!has_slices) return holdings;
  // Parts that are not slices come first, unchanged.
  const auto slices = std::stable_partition(
      holdings.begin(), holdings.end(),
      [this](const StageHolding& holding) { return !is_slice(holding.stage); });
  std::sort(slices, holdings.end(), [](const StageHolding& a, const StageHolding& b) {
    return std::tuple(a.carried, a.version.step, a.version.lineage, a.stage) <
           std::tuple(b.carried, b.version.step, b.version.lineage, b.stage);
  });
  std::vector<StageHolding> packed(holdings.begin(), slices);
  for (auto holding = slices; holding != holdings.end(); ++holding) {
    if (!packed.empty() && holding != slices) {
      StageHolding& last = packed.back();
      const bool is_alike = last.carried == holding->carried && last.version == holding->version;
      if (is_alike && next_part(last.stage) == holding->stage) {
        last.stage += 1U << first_bits;
        continue;
      }
    }
    packed.push_back(*holding);
  }
  return packed;
}

bool StageParts::names(std::uint32_t packed) const {
  const std::uint32_t first = packed & first_mask;
  const std::uint32_t more = packed >> first_bits;
  return first < count() && more < count() - first && (more == 0 || is_slice(first));
}

std::vector<StageHolding> StageParts::unpacked(const std::vector<StageHolding>& holdings) const {
  std::vector<StageHolding> unpacked;
  for (const StageHolding& holding : holdings) {
    if (!names(holding)) continue;
    const std::uint32_t first = holding.stage & first_mask;
    for (std::uint32_t i = 0; i <= holding.stage >> first_bits; ++i) {
      unpacked.push_back({first + i, holding.carried, holding.version});
    }
  }
  return unpacked;
}

std::size_t StageParts::parts_in(const StageAssignment& assignment) {
  return (assignment.stage >> first_bits) + 1;
}

std::vector<StageAssignment> StageParts::packed(
    const std::vector<StageAssignment>& assignments) const {
  std::vector<StageAssignment> packed;
  for (const StageAssignment& assignment : assignments) {
    StageAssignment* last = packed.empty() ? nullptr : &packed.back();
    const bool follows = last != nullptr && last->carrier == assignment.carrier &&
                         last->source == assignment.source && is_slice(last->stage & first_mask) &&
                         is_slice(assignment.stage) && next_part(last->stage) == assignment.stage;
    if (follows) {
      last->stage += 1U << first_bits;
    } else {
      packed.push_back(assignment);
    }
  }
  return packed;
}

std::vector<StageAssignment> StageParts::unpacked(
    const std::vector<StageAssignment>& assignments) const {
  std::vector<StageAssignment> unpacked;
  for (const StageAssignment& assignment : assignments) {
    if (!names(assignment)) continue;
    for (std::uint32_t part = assignment.stage & first_mask; part < next_part(assignment.stage);
         ++part) {
      unpacked.push_back({part, assignment.carrier, assignment.source});
    }
  }
  return unpacked;
}

}  // namespace gv
