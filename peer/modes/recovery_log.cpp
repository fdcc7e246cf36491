// Reports interruptions of the work, and recoveries.
#include "peer/modes/recovery_log.hpp"

#include <algorithm>
#include <utility>

namespace gv {

void RecoveryLog::become_interrupted(Time now, const std::vector<PeerId>& order) {
  if (since_) return;
  since_ = now;
  order_ = order;
}

void RecoveryLog::become_resumed(Time now, const std::vector<PeerId>& order,
                                 std::uint64_t operation, Effects& out) {
  if (!since_) return;
  Recovery over{.seconds = seconds(now - *since_), .peers = order.size(), .operation = operation};
  since_.reset();
  for (const PeerId peer : order_) {
    if (std::ranges::find(order, peer) == order.end()) over.lost.push_back(peer);
  }
  out.tell(
      CollectiveResumed{.peer = over.lost.empty() ? std::optional<PeerId>() : over.lost.front(),
                        .seconds_lost = over.seconds,
                        .lost = over.lost.size(),
                        .peers = over.peers,
                        .step = operation});
  if (over.lost.empty()) return;
  last_ = std::move(over);
  ++losses_;
}

}  // namespace gv
