// The reasons, and how long each has to last.
#include "peer/modes/renewal.hpp"

#include <algorithm>
#include <chrono>

namespace gv {
namespace {

/// Operations after which the shares are looked at first.
constexpr std::uint64_t first_balance = 16;
/// Newcomers are waited for together.
constexpr Duration gathering = std::chrono::milliseconds(300);
/// Who was lost is asked again and again whether it is back.
constexpr Duration knock_every = std::chrono::seconds(1);

}  // namespace

void EpochRenewal::enter_epoch(Time now) { knock_at_ = now + knock_every; }

void EpochRenewal::rest() { newcomers_since_ = knock_at_ = never; }

bool EpochRenewal::is_ours(const Epoch& epoch) const {
  return *std::ranges::min_element(epoch.order) == self_;
}

bool EpochRenewal::newcomers_wait(Time now, const RingAgreement& agreement,
                                  const std::vector<PeerId>& candidates, Effects& out) {
  const Epoch& epoch = *agreement.epoch();
  if (!is_ours(epoch)) {
    rest();
    return false;
  }
  bool newcomers = false;
  const bool knock = now >= knock_at_;
  if (knock) knock_at_ = now + knock_every;
  for (const PeerId peer : candidates) {
    if (epoch.contains(peer)) continue;
    if (!agreement.is_blamed(peer)) {
      newcomers = true;
    } else if (knock) {
      out.send(peer, Check{epoch.id});
    }
  }
  if (!newcomers) {
    newcomers_since_ = never;
  } else if (newcomers_since_ == never) {
    newcomers_since_ = now;
  }
  return newcomers && now - newcomers_since_ >= gathering;
}

bool EpochRenewal::shares_are_due(const Epoch& epoch, const std::vector<PeerId>& candidates,
                                  std::uint64_t operations) {
  if (epoch.order != balanced_order_) {
    balanced_order_ = epoch.order;
    balance_after_ = first_balance;
    balance_count_ = operations;
  }
  // Not while a ballot would wait for somebody who is lost.
  if (!is_ours(epoch) || epoch.order.size() < 2 || candidates.size() != epoch.order.size()) {
    return false;
  }
  if (operations - balance_count_ < balance_after_) return false;
  balance_after_ *= 4;
  return true;
}

Time EpochRenewal::deadline() const {
  const Time gathered = newcomers_since_ == never ? never : newcomers_since_ + gathering;
  return std::min(gathered, knock_at_);
}

}  // namespace gv
