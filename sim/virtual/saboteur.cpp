// Applies a saboteur's drawn behaviour to messages and blocks.
#include "sim/virtual/saboteur.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

namespace gv {
namespace {

constexpr std::size_t messages_kept = 64;
constexpr std::size_t transfers_kept = 16;
constexpr std::size_t header_values = 4;
constexpr std::size_t held_max = 32;
/// Upper limits on the bytes of an invented block, and on the small blocks sent for one transfer.
constexpr std::uint64_t noise_bytes_max = 4096;
constexpr std::size_t dribbled_max = 64;
/// The largest number of hostile actions in one call of act().
constexpr std::uint64_t deeds_max = 4;

template <class T>
void keep(std::deque<T>& list, T item, std::size_t most) {
  list.push_back(std::move(item));
  if (list.size() > most) list.pop_front();
}

Payload owned(std::vector<std::byte> bytes) {
  const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return {owner, *owner};
}

}  // namespace

Problems problems_with_saboteurs(const Scenario& scenario, std::size_t peers,
                                 const std::string& place) {
  Problems problems;
  const auto refuse = [&](std::string reason, std::string remedy) {
    problems.push_back({place + ": scenario.saboteurs", std::move(reason), std::move(remedy)});
  };
  const PeerSet& set = scenario.saboteurs;
  std::size_t count = 0;
  for (std::size_t peer = 0; peer < peers; ++peer) count += set.contains(peer) ? 1 : 0;
  if (set.any > 0) refuse("saboteurs are not drawn", "write their numbers");
  for (const auto& [first, last] : set.ranges) {
    if (last < peers) continue;
    refuse(fmt::format("peer {} is not one of {}", last, peers),
           fmt::format("write numbers from 0 to {}", peers - 1));
  }
  if (count > 0 && 3 * count >= peers) {
    refuse(fmt::format("{} of {} peers are a third or more", count, peers), "name fewer");
  }
  return problems;
}

Saboteur::Saboteur(PeerId self, std::vector<PeerId> peers, float loudest, Rng rng)
    : self_(self), others_(peers), loudest_(loudest), any_(std::move(peers), rng) {
  std::erase(others_, self);
  constexpr std::array often = {0.02, 0.1, 0.4, 0.9};
  meddles_ = often[this->rng().below(often.size())];
  ways_ = draw_weights<Way>();
  block_ways_ = draw_weights<BlockWay>();
  pause_s_ = 0.05 * std::exp(this->rng().uniform() * std::log(100.0));
  if (this->rng().chance(0.2)) only_ = others_[this->rng().below(others_.size())];
  if (this->rng().chance(0.3)) claims_ = std::uint64_t{1} << this->rng().below(64);
}

/// Draws the weights of attacks. Some get weight 0, so that they do not hide the others.
template <class Any>
auto Saboteur::draw_weights() -> Weights<Any> {
  Weights<Any> weights{};
  while (std::ranges::all_of(weights, [](double weight) { return weight == 0; })) {
    for (double& weight : weights) weight = rng().chance(0.5) ? rng().uniform() : 0;
  }
  return weights;
}

template <class Any>
Any Saboteur::choose(const Weights<Any>& weights) {
  double left = rng().uniform() * std::accumulate(weights.begin(), weights.end(), 0.0);
  std::size_t chosen = 0;
  while (chosen + 1 < weights.size() && left >= weights[chosen]) left -= weights[chosen++];
  return static_cast<Any>(chosen);
}

bool Saboteur::meddles_with(PeerId to) {
  return rng().chance(meddles_) && (!only_ || *only_ == to);
}

PeerId Saboteur::victim() { return only_ ? *only_ : others_[rng().below(others_.size())]; }

void Saboteur::hear(const Message& message) {
  any_.learn(message);
  keep(memory_, message, messages_kept);
}

/// Sends the message if the receiver's network would accept it.
void Saboteur::say(PeerId to, Message message, Deeds& deeds) {
  const bool is_peer = std::ranges::binary_search(others_, to);
  if (is_peer && passes_the_wire(message)) deeds.messages.push_back({to, std::move(message)});
}

void Saboteur::send(Outgoing outgoing, Deeds& deeds) {
  const PeerId to = outgoing.to;
  Message& message = outgoing.message;
  hear(message);
  if (claims_ && (!only_ || *only_ == to)) claim_step(message, self_, *claims_);
  if (!meddles_with(to)) return say(to, std::move(message), deeds);
  switch (choose<Way>(ways_)) {
    case Way::lose:
      break;
    case Way::change:
      say(to, any_.changed(std::move(message)), deeds);
      break;
    case Way::replace:
      say(to, any_.any(), deeds);
      break;
    case Way::repeat:
      say(to, message, deeds);
      say(to, std::move(message), deeds);
      break;
    default:
      keep(held_, std::move(outgoing), held_max);
      break;
  }
}

void Saboteur::send(Transfer transfer, Deeds& deeds) {
  any_.learn(transfer.id);
  const bool meddles = meddles_with(transfer.to) && !transfer.payload.bytes.empty();
  if (meddles) {
    misplace(transfer, deeds);
  } else {
    deeds.transfers.push_back(transfer);
  }
  keep(transfers_, std::move(transfer), transfers_kept);
}

/// Sends something else instead of the transfer, sends it differently, or drops it.
void Saboteur::misplace(const Transfer& transfer, Deeds& deeds) {
  Transfer sent = transfer;
  const std::size_t size = transfer.payload.bytes.size();
  switch (choose<BlockWay>(block_ways_)) {
    case BlockWay::lose:
      return;
    case BlockWay::poison:
      sent.payload = poisoned(transfer.payload);
      break;
    case BlockWay::cut:
      sent.payload.bytes = transfer.payload.bytes.first(rng().below(size));
      break;
    case BlockWay::lengthen: {
      std::vector<std::byte> longer(transfer.payload.bytes.begin(), transfer.payload.bytes.end());
      longer.resize(size + 1 + rng().below(64));
      sent.payload = owned(std::move(longer));
      break;
    }
    case BlockWay::misname:
      sent.id = any_.changed(sent.id);
      break;
    case BlockWay::shift:
      deeds.blocks.push_back({.to = transfer.to,
                              .id = transfer.id,
                              .offset = rng().chance(0.5) ? rng().below(2 * size) : rng().next(),
                              .payload = {transfer.payload.owner,
                                          transfer.payload.bytes.first(next_block_bytes(size))}});
      return;
    case BlockWay::repeat:
      dribble(transfer, deeds);
      break;
    case BlockWay::dribble:
      return dribble(transfer, deeds);
    default:
      if (!transfers_.empty()) sent.payload = transfers_[rng().below(transfers_.size())].payload;
      break;
  }
  deeds.transfers.push_back(std::move(sent));
}

/// Sends the transfer in small blocks with pauses, and maybe never completely.
void Saboteur::dribble(const Transfer& transfer, Deeds& deeds) {
  const std::span<const std::byte> bytes = transfer.payload.bytes;
  const std::size_t piece = sizeof(float) * (1 + rng().below(1 + bytes.size() / 40));
  const double pause = rng().uniform();
  double after = 0;
  std::uint64_t offset = transfer.offset;
  for (std::size_t i = 0; i < dribbled_max && offset < bytes.size(); ++i) {
    const std::size_t length = std::min<std::size_t>(piece, bytes.size() - offset);
    deeds.blocks.push_back({.after = from_seconds(after),
                            .to = transfer.to,
                            .id = transfer.id,
                            .offset = offset,
                            .payload = {transfer.payload.owner, bytes.subspan(offset, length)}});
    offset += length;
    after += pause;
  }
}

float Saboteur::loud() {
  switch (rng().below(4)) {
    case 0:
      // A NaN with all bits set. A double with these bits as its upper half is a NaN, too.
      return std::bit_cast<float>(~std::uint32_t{0});
    case 1:
      return std::numeric_limits<float>::infinity();
    case 2:
      return loudest_;
    default:
      return -loudest_ * static_cast<float>(rng().uniform());
  }
}

/// The payload with some or all of its values replaced by one bad value. The first values may be a
/// header, to which other checks apply, so they are replaced more often.
Payload Saboteur::poisoned(const Payload& payload) {
  std::vector<std::byte> bytes(payload.bytes.begin(), payload.bytes.end());
  const std::size_t values = bytes.size() / sizeof(float);
  const bool all = rng().chance(0.3);
  const float value = loud();
  for (std::size_t i = 0; i < values; ++i) {
    const double chance = i < header_values ? 0.25 : 2.0 / static_cast<double>(values);
    if (!all && !rng().chance(chance)) continue;
    std::memcpy(bytes.data() + i * sizeof(float), &value, sizeof(float));
  }
  return owned(std::move(bytes));
}

Payload Saboteur::noise(std::size_t bytes) {
  std::vector<std::byte> drawn(bytes);
  const bool values = rng().chance(0.5);
  for (std::size_t i = 0; i < bytes; ++i) drawn[i] = static_cast<std::byte>(rng().below(256));
  for (std::size_t i = 0; values && i + sizeof(float) <= bytes; i += sizeof(float)) {
    const auto value = loudest_ * static_cast<float>(rng().uniform() - 0.5);
    std::memcpy(drawn.data() + i, &value, sizeof(float));
  }
  return owned(std::move(drawn));
}

void Saboteur::act(Deeds& deeds) {
  for (std::uint64_t left = 1 + rng().below(deeds_max); left > 0; --left) {
    const PeerId to = victim();
    const std::uint64_t deed = rng().below(6);
    if (deed == 0) {
      say(to, any_.any(), deeds);
    } else if (deed == 1 && !memory_.empty()) {
      say(to, memory_[rng().below(memory_.size())], deeds);
    } else if (deed == 2 && !transfers_.empty()) {
      Transfer again = transfers_[rng().below(transfers_.size())];
      again.to = to;
      if (rng().chance(0.5)) again.id = any_.changed(again.id);
      deeds.transfers.push_back(std::move(again));
    } else if (deed == 3) {
      const TransferId id = transfers_.empty() || rng().chance(0.3)
                                ? any_.any_id()
                                : any_.changed(transfers_[rng().below(transfers_.size())].id);
      deeds.blocks.push_back({.to = to,
                              .id = id,
                              .offset = rng().chance(0.7) ? 0 : rng().next(),
                              .payload = noise(1 + rng().below(noise_bytes_max))});
    } else if (!memory_.empty()) {
      say(to, any_.changed(memory_[rng().below(memory_.size())]), deeds);
    }
  }
  while (!held_.empty() && rng().chance(0.7)) {
    const auto chosen = held_.begin() + static_cast<std::ptrdiff_t>(rng().below(held_.size()));
    say(chosen->to, std::move(chosen->message), deeds);
    held_.erase(chosen);
  }
}

Duration Saboteur::pause() { return from_seconds(-pause_s_ * std::log(1 - rng().uniform())); }

}  // namespace gv
