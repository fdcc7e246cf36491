// States on their way. What is asked for again is sent again from its beginning.
#include "peer/modes/state_transfer.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <span>
#include <utility>

namespace gv {
namespace {

/// The transfer of a whole state within an epoch.
constexpr std::uint64_t state_number = ~std::uint64_t{0};

/// A source that has not begun for this long is asked again.
constexpr Duration ask_again_after = std::chrono::seconds(1);
/// One that has begun is given up after so many times as long without a block.
constexpr int idle_max = 5;

TransferId state_id(PeerId to, std::uint64_t epoch_key) { return {to, epoch_key, state_number}; }

}  // namespace

StateCourier::StateCourier(PeerId self, std::uint64_t layout_hash, std::size_t elements,
                           std::pmr::memory_resource* memory)
    : self_(self),
      layout_hash_(layout_hash),
      states_(elements, memory),
      total_bytes_(sizeof(float) * elements) {}

bool StateCourier::concerns(const Block& block) { return block.id.number == state_number; }

void StateCourier::ask(Effects& out) const {
  out.send(source_, Fetch{.id = state_id(self_, epoch_key_), .layout_hash = layout_hash_});
}

void StateCourier::fetch(Time now, const Epoch& epoch, PeerId source, Effects& out) {
  epoch_key_ = epoch.key();
  fetching_ = true;
  source_ = source;
  coming_standing_ = epoch.standing;
  incoming_ = states_.blank();
  incoming_bytes_ = 0;
  progress_at_ = now;
  ask(out);
}

void StateCourier::leave_epoch() {
  fetching_ = false;
  incoming_.reset();
  idle_checks_ = 0;
  owed_.clear();
}

bool StateCourier::is_incomplete() const { return fetching_ && incoming_bytes_ < total_bytes_; }

void StateCourier::receive(Time now, PeerId from, const Block& block) {
  if (!is_incomplete() || from != source_ || block.id != state_id(self_, epoch_key_)) return;
  if (block.offset != incoming_bytes_ || block.bytes.size() > total_bytes_ - incoming_bytes_) {
    return;
  }
  std::memcpy(reinterpret_cast<std::byte*>(incoming_->data()) + incoming_bytes_, block.bytes.data(),
              block.bytes.size());
  incoming_bytes_ += block.bytes.size();
  progress_at_ = now;
  idle_checks_ = 0;
}

std::optional<ArrivedState> StateCourier::take() {
  if (!fetching_ || is_incomplete()) return std::nullopt;
  fetching_ = false;
  return ArrivedState{std::exchange(incoming_, nullptr), coming_standing_, source_};
}

bool StateCourier::is_asked(const Epoch& epoch, PeerId from, const Fetch& fetch) const {
  if (fetch.id != state_id(from, epoch.key())) return false;
  const auto place = std::ranges::find(epoch.order, from);
  return place != epoch.order.end() &&
         epoch.sources[static_cast<std::size_t>(place - epoch.order.begin())] == self_;
}

VectorPool::Vector StateCourier::blank(const Standing& standing) {
  taken_ = standing;
  return states_.blank();
}

std::size_t StateCourier::send(const Epoch& epoch, const VectorPool::Vector& state, Effects& out) {
  // Taken before an operation that finished meanwhile, it is not what the epoch goes on from: then
  // the next job takes it again.
  if (taken_ != epoch.standing) return 0;
  for (const PeerId peer : owed_) {
    out.transfers.push_back({.to = peer,
                             .id = state_id(peer, epoch.key()),
                             .payload = {state, std::as_bytes(std::span<const float>(*state))}});
  }
  return std::exchange(owed_, {}).size();
}

std::optional<PeerId> StateCourier::tick(Time now, Effects& out) {
  if (!is_incomplete() || now < deadline()) return std::nullopt;
  progress_at_ = now;
  if (incoming_bytes_ == 0) {
    ask(out);
    return std::nullopt;
  }
  return ++idle_checks_ > idle_max ? std::optional(source_) : std::nullopt;
}

Time StateCourier::deadline() const {
  return is_incomplete() ? progress_at_ + ask_again_after : never;
}

}  // namespace gv
