// The effects that a protocol asks for; it changes nothing else.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/time.hpp"
#include "consensus/message/facts.hpp"
#include "consensus/message/message.hpp"
#include "consensus/message/snapshot.hpp"

namespace gv {

/// A message to send on the control link to `to`. It may be lost; sending never blocks.
struct Outgoing {
  PeerId to{};
  Message message;
};

/// An arriving message. `from` is authenticated: it is the key of the message's link.
struct Envelope {
  PeerId from{};
  Message message;
};

/// Stream `payload` from byte `offset` on to `to` over the bulk lane, in blocks of at most
/// `block_bytes_max`. Starting a transfer again replaces it.
struct Transfer {
  PeerId to{};
  TransferId id;
  Payload payload;
  std::uint64_t offset = 0;
  /// True if the next such transfer to the same peer makes this one useless. While several wait to
  /// begin, a lane keeps only the newest. One that has begun is finished, so something always
  /// arrives.
  bool superseded_by_next = false;
  /// True if it is sent in advance. A lane sends all other transfers first.
  bool can_wait = false;
};

/// True if `newer` makes `waiting` useless. Both go to the same peer, and no byte of `waiting` has
/// been sent yet.
inline bool supersedes(const Transfer& newer, const Transfer& waiting) {
  return newer.superseded_by_next && waiting.superseded_by_next && waiting.offset == 0;
}

/// The size of a block in a long stream. Within a host TCP cuts streams into segments of 65,464
/// bytes (IPv6; somewhat more with IPv4). Four segments hold a block of this size and its header; a
/// few bytes more would need a fifth, and each segment costs both ends about 5 us. The size is a
/// whole number of groups of 512 floats, which value codecs scale together.
inline constexpr std::size_t block_bytes_usual = 127 * 512 * sizeof(float);

/// Largest block on a bulk lane. A short tail is appended to the last regular block instead of
/// being sent alone; the block then fills a fifth segment.
inline constexpr std::size_t block_bytes_max = 320 * 1024;

/// Bytes of the next block when `left` bytes of a stream are left.
constexpr std::size_t next_block_bytes(std::size_t left) {
  return left <= block_bytes_max ? left : block_bytes_usual;
}

/// One piece of a transfer, as it arrives. Without a `hold` the bytes are valid only during the
/// call. With a hold they stay valid until the hold is released; meanwhile the sender cannot reuse
/// that memory.
struct Block {
  TransferId id;
  std::uint64_t offset = 0;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> hold = nullptr;
};

/// A block that stays valid after the call: the block itself if it has a hold, otherwise a copy.
inline Block kept(const Block& block) {
  if (block.hold) return block;
  const auto copy =
      std::make_shared<const std::vector<std::byte>>(block.bytes.begin(), block.bytes.end());
  return {block.id, block.offset, *copy, copy};
}

/// Stop streaming `id` to `to`. Has no effect if the transfer is over.
struct Cancel {
  PeerId to{};
  TransferId id;
};

/// The to-do list of one or more calls. The caller drains it; protocols only append.
struct Effects {
  std::vector<Outgoing> messages;
  std::vector<Transfer> transfers;
  std::vector<Cancel> cancels;
  std::vector<Fact> facts;

  void send(PeerId to, Message message) { messages.push_back({to, std::move(message)}); }
  void tell(Fact fact) { facts.push_back(std::move(fact)); }
};

}  // namespace gv
