// Kept states, and transfers by stage.
#include "peer/modes/stage_states.hpp"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

namespace gv {
namespace {

/// A source that has not begun for this long is asked again.
constexpr Duration ask_again_after = std::chrono::seconds(1);
/// A source that has begun is given up after this many such intervals without a block.
constexpr int idle_max = 5;

/// A generation makes each peer download the state of a stage at most once.
TransferId id_of(PeerId asker, std::uint64_t generation_key, std::uint32_t stage) {
  return state_id(asker, generation_key, 0, stage);
}

}  // namespace

StageStates::StageStates(PeerId self, std::uint64_t layout_hash, const PipelineOptions& options)
    : self_(self), layout_hash_(layout_hash), sizes_(options.stages), memory_(options.memory) {}

StageValues StageStates::blank(std::uint32_t stage) const {
  return std::make_shared<Floats>(sizes_[stage].state, memory_);
}

// ---- States kept ----

void StageStates::keep(std::uint32_t stage, const ModelVersion& version, StageValues values) {
  std::vector<Kept>& kept = kept_[stage];
  std::erase_if(kept, [&](const Kept& one) { return one.version == version; });
  kept.push_back({version, std::move(values)});
}

void StageStates::settle(const ModelVersion& version) {
  for (auto& [stage, kept] : kept_) {
    std::erase_if(kept, [&](const Kept& one) { return is_before(one.version, version); });
  }
}

StageValues StageStates::find(std::uint32_t stage, const ModelVersion& version) const {
  const auto kept = kept_.find(stage);
  if (kept == kept_.end()) return nullptr;
  const auto found = std::ranges::find(kept->second, version, &Kept::version);
  return found == kept->second.end() ? nullptr : found->values;
}

std::vector<StageHolding> StageStates::holdings() const {
  std::vector<StageHolding> holdings;
  for (const auto& [stage, kept] : kept_) {
    for (const Kept& one : kept) holdings.push_back({stage, false, one.version});
  }
  return holdings;
}

// ---- At the begin of a generation ----

void StageStates::enter(const Generation& generation) {
  leave();
  key_ = generation.key();
  version_ = generation.version;
  for (const StageAssignment& assignment : generation.assignments) {
    if (assignment.source != self_ || assignment.carrier == self_) continue;
    owed_[assignment.stage].push_back(assignment.carrier);
    if (StageValues kept = find(assignment.stage, version_)) {
      handed_over_[assignment.stage] = std::move(kept);
    }
  }
}

void StageStates::leave() {
  key_ = 0;
  fetched_.clear();
  owed_.clear();
  handed_over_.clear();
  asked_.clear();
  copies_.clear();
  expected_.clear();
}

void StageStates::fetch(Time now, std::uint32_t stage, PeerId source, Effects& out) {
  fetched_[stage] = awaited(stage, source, now);
  ask(stage, fetched_[stage], out);
}

StageStates::Incoming StageStates::awaited(std::uint32_t stage, PeerId from, Time now) const {
  return {.source = from,
          .values = blank(stage),
          .blocks = Reassembly(sizeof(float) * sizes_[stage].state, sizeof(float)),
          .progress_at = now};
}

void StageStates::ask(std::uint32_t stage, const Incoming& incoming, Effects& out) const {
  out.send(incoming.source,
           StateRequest{.id = id_of(self_, key_, stage), .layout_hash = layout_hash_});
}

bool StageStates::is_fetching() const {
  return std::ranges::any_of(fetched_,
                             [](const auto& entry) { return !entry.second.blocks.is_whole(); });
}

bool StageStates::fetches_from(PeerId peer) const {
  return std::ranges::any_of(fetched_, [&](const auto& entry) {
    return entry.second.source == peer && !entry.second.blocks.is_whole();
  });
}

std::map<std::uint32_t, StageValues> StageStates::take() {
  std::map<std::uint32_t, StageValues> states;
  for (auto& [stage, incoming] : std::exchange(fetched_, {})) {
    states[stage] = std::move(incoming.values);
  }
  return states;
}

std::vector<std::uint32_t> StageStates::to_copy() const {
  std::vector<std::uint32_t> stages;
  for (const auto& [stage, carriers] : owed_) {
    if (!handed_over_.contains(stage)) stages.push_back(stage);
  }
  return stages;
}

void StageStates::hand_over(std::uint32_t stage, StageValues values, Effects& out) {
  if (!owed_.contains(stage)) return;
  handed_over_[stage] = std::move(values);
  const auto waiting = asked_.find(stage);
  if (waiting == asked_.end()) return;
  for (const PeerId peer : std::exchange(waiting->second, {})) {
    send(stage, peer, handed_over_[stage], out);
  }
}

void StageStates::send(std::uint32_t stage, PeerId to, const StageValues& values, Effects& out) {
  ++sent_;
  out.transfers.push_back({.to = to,
                           .id = id_of(to, key_, stage),
                           .payload = {values, std::as_bytes(std::span<const float>(*values))}});
}

void StageStates::receive(PeerId from, const StateRequest& fetch, Effects& out) {
  const std::uint32_t stage = fetch.id.stage;
  if (key_ == 0 || fetch.id != id_of(from, key_, stage)) return;
  const auto owed = owed_.find(stage);
  if (owed == owed_.end() || std::ranges::find(owed->second, from) == owed->second.end()) return;
  const auto there = handed_over_.find(stage);
  if (there != handed_over_.end()) {
    send(stage, from, there->second, out);
  } else if (std::vector<PeerId>& asked = asked_[stage];
             std::ranges::find(asked, from) == asked.end()) {
    asked.push_back(from);
  }
}

void StageStates::taken_over(PeerId peer) {
  for (auto& [stage, carriers] : owed_) std::erase(carriers, peer);
  std::erase_if(owed_, [](const auto& entry) { return entry.second.empty(); });
}

// ---- Copies for neighbours ----

void StageStates::send_copy(std::uint32_t stage, std::uint64_t operation, const StageValues& values,
                            PeerId to, Effects& out) const {
  out.transfers.push_back({.to = to,
                           .id = copy_id(self_, key_, stage, operation),
                           .payload = {values, std::as_bytes(std::span<const float>(*values))}});
}

void StageStates::expect_copy(std::uint32_t stage, const ModelVersion& version, PeerId from) {
  expected_[{stage, version.step}] = {version, from};
  settle_copies();
}

/// Keeps expected copies that have arrived, which may be before we expect them.
void StageStates::settle_copies() {
  std::erase_if(expected_, [this](const auto& entry) {
    const auto came = copies_.find(entry.first);
    const bool whole = came != copies_.end() && came->second.source == entry.second.from &&
                       came->second.blocks.is_whole();
    if (!whole) return false;
    keep(entry.first.first, entry.second.version, std::move(came->second.values));
    copies_.erase(came);
    return true;
  });
}

bool StageStates::take(Incoming& incoming, const Block& block) {
  const auto memory = std::as_writable_bytes(std::span<float>(*incoming.values));
  if (incoming.blocks.take(block, memory) != BlockFit::next) return false;
  ++progress_;
  return true;
}

bool StageStates::receive(Time now, PeerId from, const Block& block) {
  if (key_ == 0 || block.id.session != key_) return false;
  return block.id.kind == TransferKind::state ? receive_fetched(now, from, block)
                                              : receive_copy(now, from, block);
}

bool StageStates::receive_fetched(Time now, PeerId from, const Block& block) {
  const auto found = fetched_.find(block.id.stage);
  if (found == fetched_.end() || found->second.source != from) return false;
  if (block.id != id_of(self_, key_, block.id.stage)) return false;
  Incoming& incoming = found->second;
  // A state that is asked for twice comes twice: start again if the first is not complete yet.
  if (block.offset == 0 && !incoming.blocks.is_whole()) incoming.blocks.go_back_to(0);
  if (!take(incoming, block)) return false;
  incoming.progress_at = now;
  incoming.idle_checks = 0;
  return true;
}

bool StageStates::receive_copy(Time now, PeerId from, const Block& block) {
  const std::uint32_t stage = block.id.stage;
  if (block.id != copy_id(from, key_, stage, block.id.number)) return false;
  // At most one copy of each stage is on its way for this copying point and one for the next.
  if (stage >= sizes_.size() || copies_.size() > 2 * sizes_.size()) return false;
  Incoming& incoming = copies_[{stage, block.id.number}];
  if (!incoming.values) incoming = awaited(stage, from, now);
  const bool fits = incoming.source == from && take(incoming, block);
  settle_copies();
  return fits;
}

std::optional<PeerId> StageStates::tick(Time now, Effects& out) {
  for (auto& [stage, incoming] : fetched_) {
    if (incoming.blocks.is_whole() || now < incoming.progress_at + ask_again_after) continue;
    incoming.progress_at = now;
    if (incoming.blocks.received() == 0) {
      ask(stage, incoming, out);
    } else if (++incoming.idle_checks > idle_max) {
      return incoming.source;
    }
  }
  return std::nullopt;
}

Time StageStates::deadline() const {
  Time earliest = never;
  for (const auto& [stage, incoming] : fetched_) {
    if (!incoming.blocks.is_whole()) {
      earliest = std::min(earliest, incoming.progress_at + ask_again_after);
    }
  }
  return earliest;
}

}  // namespace gv
