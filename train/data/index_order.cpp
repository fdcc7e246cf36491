// Permutes the positions within a peer's part, and deals all samples out to the parts.
#include "train/data/index_order.hpp"

#include "base/check.hpp"
#include "base/rng.hpp"

namespace gv {

IndexOrder::IndexOrder(std::uint64_t samples, const IndexRule& rule)
    : samples_(samples), rule_(rule), part_(samples) {
  check(samples > 0 && rule.peer < rule.peers, "a peer has a place among the others");
  if (rule_.part != IndexRule::Part::own) return;
  part_ = samples / rule.peers + (rule.peer < samples % rule.peers ? 1 : 0);
  parts_.emplace(samples, Rng(rule.seed).fork("parts of indices").next());
}

std::uint64_t IndexOrder::at(std::uint64_t position) {
  const std::uint64_t epoch = position / part_;
  if (epoch_ != epoch) {
    epoch_ = epoch;
    Rng draws = rule_.part == IndexRule::Part::common
                    ? Rng(rule_.seed).fork("leased order").fork(epoch)
                    : Rng(rule_.seed).fork("order of indices").fork(rule_.peer).fork(epoch);
    order_.emplace(part_, draws.next());
  }
  const std::uint64_t place = order_->at(position % part_);
  return parts_ ? parts_->at(place * rule_.peers + rule_.peer) : place;
}

}  // namespace gv
