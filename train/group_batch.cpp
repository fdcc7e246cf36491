// Copies the parts of a batch that the members of a group read.
#include "train/group_batch.hpp"

#include <algorithm>
#include <vector>

#include "base/check.hpp"
#include "train/layers/group_steps.hpp"
#include "train/layers/strips.hpp"

namespace gv {

GroupBatch::GroupBatch(const SlicedStage& stage, std::size_t batch, std::size_t truth)
    : truth_(truth),
      planes_(batch * stage.plan().in[0]),
      rows_(stage.plan().in[1]),
      width_(stage.plan().in[2]),
      rows_read_(rows_read_at_first(stage)) {}

GroupSum GroupBatch::sum() const {
  if (rows_read_.empty()) return {.always = planes_ * rows_ * width_ + truth_};
  GroupSum sum{.always = truth_};
  const std::size_t row = planes_ * width_;
  for (const Range& rows : rows_read_) sum.dealt.push_back({rows.begin * row, rows.end * row});
  return sum;
}

void GroupBatch::give(std::span<const float> whole, const GroupPlace& place,
                      std::span<float> out) const {
  if (rows_read_.empty()) {
    std::ranges::copy(whole, out.begin());
    return;
  }
  const std::span<const float> truth = whole.last(truth_);
  const std::vector<Range> parts = sum().parts(place.cuts);
  for (std::size_t member = 0; member < parts.size(); ++member) {
    const Range rows = range_of_member(rows_read_, place.cuts, member);
    const std::span<float> part = out.subspan(parts[member].begin, parts[member].size());
    copy_rows(whole.data(), {0, rows_}, part.data(), rows, planes_, width_);
    std::ranges::copy(truth, part.last(truth_).begin());
  }
}

std::span<const float> GroupBatch::take(std::span<const float> sum, const GroupPlace& place,
                                        std::span<float> inputs) const {
  check(inputs.size() == planes_ * rows_ * width_, "inputs are those of a batch");
  std::span<const float> own = sum;
  if (rows_read_.empty()) {
    std::ranges::copy(own.first(inputs.size()), inputs.begin());
  } else {
    const Range part = this->sum().parts(place.cuts)[place.own];
    own = sum.subspan(part.begin, part.size());
    copy_rows(own.data(), range_of_member(rows_read_, place.cuts, place.own), inputs.data(),
              {0, rows_}, planes_, width_);
  }
  return own.last(truth_);
}

}  // namespace gv
