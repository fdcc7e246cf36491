// Joins adjacent parts of a gradient.
#include "peer/host/gradient_parts.hpp"

#include <iterator>
#include <stdexcept>

namespace gv {

void GradientParts::take(const GradientPart& part) {
  const auto [begin, end] = part.range;
  // A part that was reported as ready may already be on its way to other peers, so it must not
  // change.
  const auto next = waiting_.lower_bound(end);
  const bool overlaps_next = next != waiting_.end() && next->second < end;
  const bool overlaps_last = next != waiting_.begin() && std::prev(next)->first > begin;
  if (begin >= end || end > ready_from_ || overlaps_next || overlaps_last) {
    throw std::logic_error("the parts of a gradient overlap, or are not of this model");
  }
  part.read(out_.subspan(begin, end - begin));
  waiting_.emplace(end, begin);
  const std::size_t before = ready_from_;
  for (auto last = waiting_.find(ready_from_); last != waiting_.end();
       last = waiting_.find(ready_from_)) {
    ready_from_ = last->second;
    waiting_.erase(last);
  }
  if (ready_from_ < before && *ready_) (*ready_)(ready_from_, before);
}

}  // namespace gv
