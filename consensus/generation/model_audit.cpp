// Finds the largest group of peers with equal fingerprints.
#include "consensus/generation/model_audit.hpp"

#include <algorithm>

#include "base/state_hash.hpp"

namespace gv {
namespace {

/// Number of incomplete audits kept. No peer is ahead of another by more audits than this, so a
/// message of any older audit was lost, and the audit is dropped.
constexpr std::size_t operations_kept = 2;

}  // namespace

void ModelAudit::begin(const std::vector<PeerId>& order) {
  order_ = order;
  told_.clear();
}

std::optional<std::vector<PeerId>> ModelAudit::tell(PeerId from, std::uint64_t operation,
                                                    std::uint64_t fingerprint) {
  if (std::ranges::find(order_, from) == order_.end()) return std::nullopt;
  Told& told = told_[operation];
  told.emplace(from, fingerprint);
  const bool whole = told.size() == order_.size();
  std::vector<PeerId> odd;
  if (whole) {
    std::map<std::uint64_t, std::size_t> sizes;
    for (const auto& [peer, theirs] : told) ++sizes[theirs];
    // Compares in the order of ranks, so that among equally large groups the one with the lowest
    // rank wins.
    std::uint64_t usual = told.at(order_.front());
    for (const PeerId peer : order_) {
      if (sizes.at(told.at(peer)) > sizes.at(usual)) usual = told.at(peer);
    }
    for (const PeerId peer : order_) {
      if (told.at(peer) != usual) odd.push_back(peer);
    }
    told_.erase(operation);
  }
  while (told_.size() > operations_kept) told_.erase(told_.begin());
  return whole ? std::optional(odd) : std::nullopt;
}

bool operator==(const ModelAudit& a, const ModelAudit& b) { return equal_states(a, b); }

}  // namespace gv
