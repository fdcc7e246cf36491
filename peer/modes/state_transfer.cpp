// Transfers of states. A repeated request is answered from the state's beginning.
#include "peer/modes/state_transfer.hpp"

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

/// A generation makes each peer download at most one state.
TransferId id_of(PeerId asker, std::uint64_t generation_key) {
  return state_id(asker, generation_key, 0);
}

}  // namespace

StateTransfer::StateTransfer(PeerId self, std::uint64_t layout_hash, std::size_t elements,
                             std::pmr::memory_resource* memory)
    : self_(self), layout_hash_(layout_hash), states_(elements, memory) {}

void StateTransfer::ask(Effects& out) const {
  out.send(source_, StateRequest{.id = id_of(self_, generation_key_), .layout_hash = layout_hash_});
}

void StateTransfer::fetch(Time now, const Generation& generation, PeerId source, Effects& out) {
  generation_key_ = generation.key();
  fetching_ = true;
  source_ = source;
  coming_version_ = generation.version;
  incoming_ = states_.blank();
  blocks_ = Reassembly(sizeof(float) * states_.size(), sizeof(float));
  progress_at_ = now;
  ask(out);
}

void StateTransfer::leave_generation() {
  fetching_ = false;
  incoming_.reset();
  idle_checks_ = 0;
  owed_.clear();
}

bool StateTransfer::is_incomplete() const { return fetching_ && !blocks_.is_whole(); }

void StateTransfer::receive(Time now, PeerId from, const Block& block) {
  if (!is_incomplete() || from != source_ || block.id != id_of(self_, generation_key_)) return;
  const auto memory = std::as_writable_bytes(std::span<float>(*incoming_));
  if (blocks_.take(block, memory) != BlockFit::next) return;
  progress_at_ = now;
  idle_checks_ = 0;
}

std::optional<ArrivedState> StateTransfer::take() {
  if (!fetching_ || is_incomplete()) return std::nullopt;
  fetching_ = false;
  return ArrivedState{std::exchange(incoming_, nullptr), coming_version_, source_};
}

bool StateTransfer::is_asked(const Generation& generation, PeerId from,
                             const StateRequest& fetch) const {
  if (fetch.id != id_of(from, generation.key())) return false;
  const auto place = std::ranges::find(generation.order, from);
  return place != generation.order.end() &&
         generation.sources[static_cast<std::size_t>(place - generation.order.begin())] == self_;
}

VectorPool::Vector StateTransfer::blank(const ModelVersion& version) {
  taken_ = version;
  return states_.blank();
}

std::size_t StateTransfer::send(const Generation& generation, const VectorPool::Vector& state,
                                Effects& out) {
  // A copy taken before a collective that finished meanwhile is not the state that the generation
  // starts from; the next job copies again.
  if (taken_ != generation.version) return 0;
  for (const PeerId peer : owed_) {
    out.transfers.push_back({.to = peer,
                             .id = id_of(peer, generation.key()),
                             .payload = {state, std::as_bytes(std::span<const float>(*state))}});
  }
  return std::exchange(owed_, {}).size();
}

std::optional<PeerId> StateTransfer::tick(Time now, Effects& out) {
  if (!is_incomplete() || now < deadline()) return std::nullopt;
  progress_at_ = now;
  if (blocks_.received() == 0) {
    ask(out);
    return std::nullopt;
  }
  return ++idle_checks_ > idle_max ? std::optional(source_) : std::nullopt;
}

Time StateTransfer::deadline() const {
  return is_incomplete() ? progress_at_ + ask_again_after : never;
}

}  // namespace gv
