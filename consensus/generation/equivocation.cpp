// Signs and compares decisions, and shows them to other peers.
#include "consensus/generation/equivocation.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/canonical.hpp"
#include "base/state_hash.hpp"

namespace gv {
namespace {

constexpr char decision_domain[] = "grapevine decision 1";
constexpr char generation_domain[] = "grapevine generation 1";

/// Number of decisions remembered from each peer. A later ballot may be decided before an earlier
/// decision has reached all peers.
constexpr std::size_t decisions_kept = 4;

constexpr Duration shown_every = std::chrono::seconds(10);

/// The signed part of a Decision.
struct Ruling {
  GenerationId ballot;
  Digest digest{};
};

std::vector<std::byte> bytes_of(const Decision& decision) {
  return canonical_bytes(decision_domain,
                         Ruling{.ballot = decision.ballot, .digest = decision.digest});
}

bool differ(const Decision& one, const Decision& other) {
  return one.ballot == other.ballot && one.digest != other.digest;
}

}  // namespace

Decision decision_in(const Install& install, const Signer& signer) {
  return {.ballot = install.generation.id,
          .digest = signer.digest(canonical_bytes(generation_domain, install.generation)),
          .signature = install.signature};
}

Install signed_install(Generation generation, const Signer& signer) {
  Install install{.generation = std::move(generation)};
  install.signature = signer.sign(bytes_of(decision_in(install, signer)));
  return install;
}

bool is_signed(const Decision& decision, const Signer& signer) {
  return signer.verify(decision.ballot.proposer, bytes_of(decision), decision.signature);
}

bool is_proof(const Equivocation& claim, const Signer& signer) {
  return differ(claim.one, claim.other) && is_signed(claim.one, signer) &&
         is_signed(claim.other, signer);
}

auto EquivocationWatch::accept(const Decision& decision, const std::vector<PeerId>& present,
                               Effects& out) -> Finding {
  for (const PeerId witness : present) {
    if (witness != self_ && witness != decision.ballot.proposer) {
      out.send(witness, Decided{decision});
    }
  }
  return hear(self_, decision);
}

bool EquivocationWatch::has_accepted(const GenerationId& ballot) const {
  const auto own = held_.find(self_);
  return own != held_.end() &&
         std::ranges::find(own->second, ballot, &Decision::ballot) != own->second.end();
}

bool EquivocationWatch::holds(const Decision& decision) const {
  const auto own = held_.find(self_);
  return own != held_.end() && std::ranges::find(own->second, decision) != own->second.end();
}

auto EquivocationWatch::hear(PeerId holder, const Decision& decision) -> Finding {
  std::vector<Decision>& own = held_[holder];
  if (std::ranges::find(own, decision) != own.end()) return {};
  Finding finding;
  bool is_checked = holder == self_;
  for (auto& [other, held] : held_) {
    const auto contrary =
        std::ranges::find_if(held, [&](const Decision& known) { return differ(known, decision); });
    if (contrary == held.end()) continue;
    if (!is_checked && !is_signed(decision, *signer_)) return {.forgers = {holder}, .proof = {}};
    is_checked = true;
    if (is_signed(*contrary, *signer_)) {
      if (!is_convicted(decision.ballot.proposer)) {
        finding.proof = Equivocation{.one = *contrary, .other = decision};
      }
      break;
    }
    finding.forgers.push_back(other);
    held.erase(contrary);
  }
  own.push_back(decision);
  if (own.size() > decisions_kept) own.erase(own.begin());
  return finding;
}

void EquivocationWatch::convict(const Equivocation& proof) {
  proofs_.emplace(proof.one.ballot.proposer, proof);
  shows_at_ = {};
}

void EquivocationWatch::show_proofs(Time now, const std::vector<PeerId>& present, Effects& out) {
  std::erase_if(held_, [&](const auto& entry) {
    return entry.first != self_ && !std::ranges::binary_search(present, entry.first);
  });
  if (now < deadline()) return;
  shows_at_ = now + shown_every;
  for (const PeerId peer : present) {
    if (peer == self_) continue;
    for (const auto& [convicted, proof] : proofs_) out.send(peer, proof);
  }
}

bool operator==(const EquivocationWatch& a, const EquivocationWatch& b) {
  return equal_states(a, b);
}

}  // namespace gv
