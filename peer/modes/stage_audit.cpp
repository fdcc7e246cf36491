// Compares parts of stages by fingerprints that depend on the generation.
#include "peer/modes/stage_audit.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/rng.hpp"
#include "consensus/transfer/sketch.hpp"

namespace gv {
namespace {

/// Returns a fingerprint that depends on the generation. If it did not, a hostile peer could
/// prepare two different states with equal fingerprints, and give them to two peers.
std::uint64_t fingerprint_in(std::uint64_t generation, std::span<const float> values) {
  std::uint64_t hash = generation;
  for (const float value : sketch_of(values, generation)) {
    hash = hash_combine(hash, std::bit_cast<std::uint32_t>(value));
  }
  return hash;
}

}  // namespace

void StageAudit::enter(const Generation& generation) {
  leave();
  ballot_ = generation.id;
  key_ = generation.key();
  step_ = generation.version.step;
  std::map<std::uint32_t, std::vector<PeerId>> holders;
  std::set<std::uint32_t> lacked;
  for (const auto& [part, carrier, source] : generation.assignments) {
    if (carrier == source) {
      holders[part].push_back(carrier);
    } else {
      lacked.insert(part);
    }
  }
  for (const std::uint32_t part : lacked) {
    std::vector<PeerId>& peers = holders[part];
    if (peers.size() < 2) continue;
    may_be_in_vain_ = true;
    const bool is_ours = std::ranges::find(peers, self_) != peers.end();
    if (!was_in_vain_ || !is_ours) continue;
    std::ranges::sort(peers);
    Compared& compared = compared_[part];
    compared.audit.begin(peers);
    compared.holders = std::move(peers);
  }
}

void StageAudit::leave() {
  was_in_vain_ = was_in_vain_ || may_be_in_vain_;
  may_be_in_vain_ = false;
  key_ = 0;
  compared_.clear();
  odd_.clear();
}

void StageAudit::settle() {
  was_in_vain_ = false;
  may_be_in_vain_ = false;
  compared_.clear();
  odd_.clear();
}

std::vector<std::uint32_t> StageAudit::own_parts() const {
  std::vector<std::uint32_t> parts;
  for (const auto& [part, compared] : compared_) parts.push_back(part);
  return parts;
}

void StageAudit::tell(std::uint32_t part, std::span<const float> values, Effects& out) {
  const auto found = compared_.find(part);
  if (found == compared_.end() || found->second.own) return;
  Compared& compared = found->second;
  compared.own = fingerprint_in(key_, values);
  for (const PeerId peer : compared.holders) {
    if (peer != self_) out.send(peer, Audit{ballot_, part, *compared.own});
  }
  note(self_, part, *compared.own, out);
}

void StageAudit::receive(PeerId from, const Audit& audit, Effects& out) {
  if (key_ == 0 || audit.ballot != ballot_) return;
  const auto part = static_cast<std::uint32_t>(audit.step);
  const auto found = compared_.find(part);
  if (found == compared_.end() || part != audit.step) return;
  Compared& compared = found->second;
  if (!std::ranges::binary_search(compared.holders, from)) return;
  // Send our fingerprint again: our message may have been lost, or have come before the peer
  // entered the generation.
  if (compared.own && compared.answered.insert(from).second) {
    out.send(from, Audit{ballot_, part, *compared.own});
  }
  note(from, part, audit.fingerprint, out);
}

void StageAudit::note(PeerId from, std::uint32_t part, std::uint64_t fingerprint, Effects& out) {
  const auto verdict = compared_.at(part).audit.tell(from, step_, fingerprint);
  if (!verdict) return;
  for (const PeerId peer : verdict->odd) {
    out.tell(ModelsDiffer{.peer = peer, .step = step_});
    if (peer == self_) odd_.push_back(part);
  }
}

}  // namespace gv
