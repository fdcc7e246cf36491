// Finds the largest group of peers with equal fingerprints.
#include "consensus/generation/model_audit.hpp"

#include <algorithm>

#include "base/state_hash.hpp"

namespace gv {
namespace {

/// Number of fingerprints kept for each peer. An honest peer is at most one audit ahead of another.
/// A hostile peer that sends many displaces only its own.
constexpr std::size_t fingerprints_kept = 2;

}  // namespace

void ModelAudit::begin(const std::vector<PeerId>& order) {
  order_ = order;
  told_.clear();
}

std::optional<ModelAudit::Verdict> ModelAudit::tell(PeerId from, std::uint64_t operation,
                                                    std::uint64_t fingerprint) {
  if (std::ranges::find(order_, from) == order_.end()) return std::nullopt;
  std::map<std::uint64_t, std::uint64_t>& own = told_[from];
  own.emplace(operation, fingerprint);
  if (own.size() > fingerprints_kept) own.erase(own.begin());
  if (tellers(operation) == order_.size()) return judge(operation);
  // Once most peers have gone on to a later audit, what is missing of the earlier one will hardly
  // come.
  const auto have_most_told = [this](std::uint64_t audit) {
    return 2 * tellers(audit) > order_.size();
  };
  const std::uint64_t earlier = own.begin()->first;
  const bool is_over = earlier < operation && have_most_told(earlier) && have_most_told(operation);
  return is_over ? std::optional(judge(earlier)) : std::nullopt;
}

/// The number of peers whose fingerprint for this collective is known.
std::size_t ModelAudit::tellers(std::uint64_t operation) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      told_, [&](const auto& entry) { return entry.second.contains(operation); }));
}

/// Compares the known fingerprints for this collective, and forgets them.
ModelAudit::Verdict ModelAudit::judge(std::uint64_t operation) {
  std::map<PeerId, std::uint64_t> told;
  for (auto& [peer, fingerprints] : told_) {
    const auto found = fingerprints.find(operation);
    if (found == fingerprints.end()) continue;
    told.emplace(peer, found->second);
    fingerprints.erase(found);
  }
  std::map<std::uint64_t, std::size_t> sizes;
  for (const auto& [peer, theirs] : told) ++sizes[theirs];
  // Compares in the order of ranks, so that among equally large groups the one that contains the
  // lowest rank wins.
  std::uint64_t usual = 0;
  std::size_t most = 0;
  for (const PeerId peer : order_) {
    const auto theirs = told.find(peer);
    if (theirs == told.end() || sizes.at(theirs->second) <= most) continue;
    usual = theirs->second;
    most = sizes.at(usual);
  }
  Verdict verdict{.operation = operation, .odd = {}};
  for (const PeerId peer : order_) {
    const auto theirs = told.find(peer);
    if (theirs != told.end() && theirs->second != usual) verdict.odd.push_back(peer);
  }
  return verdict;
}

bool operator==(const ModelAudit& a, const ModelAudit& b) { return equal_states(a, b); }

}  // namespace gv
