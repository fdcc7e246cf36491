// The effects that a protocol asks for. A protocol changes nothing else outside itself.
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

/// An arriving message. `from` is authenticated: it is the peer at the other end of the message's
/// link.
struct Envelope {
  PeerId from{};
  Message message;
};

/// Asks to stream `payload`, from byte `offset` on, to peer `to` over the bulk lane, in blocks of
/// at most `block_bytes_max`. Starting a transfer again replaces it.
struct Transfer {
  PeerId to{};
  TransferId id;
  Payload payload;
  std::uint64_t offset = 0;
  /// True if the next transfer with this flag to the same peer makes this one useless. While
  /// several such transfers wait to begin, a lane keeps only the newest. A transfer that has begun
  /// is completed, so something always arrives.
  bool superseded_by_next = false;
  /// True if the payload is sent in advance. A lane sends all other transfers first.
  bool can_wait = false;
};

/// True if `newer` makes `waiting` useless. Both must go to the same peer, and no byte of `waiting`
/// may have been sent yet. A peer works in one generation at a time, and its results from earlier
/// generations are of no use.
inline bool supersedes(const Transfer& newer, const Transfer& waiting) {
  if (waiting.offset != 0) return false;
  const bool is_of_later_generation = is_work_of_generation(newer.id.kind) &&
                                      is_work_of_generation(waiting.id.kind) &&
                                      newer.id.session != waiting.id.session;
  return is_of_later_generation || (newer.superseded_by_next && waiting.superseded_by_next);
}

/// The size of a block in a long stream. Within a host, TCP cuts streams into segments of 65,464
/// bytes (IPv6; somewhat more with IPv4), and each segment costs both ends about 5 us. The size is
/// a whole number of groups of 512 floats, because value codecs scale each group together. Four
/// segments hold a block of this size and its header; one group more would need a fifth.
inline constexpr std::size_t block_bytes_usual = 127 * 512 * sizeof(float);

/// Largest block on a bulk lane. A short tail is appended to the last regular block instead of
/// being sent alone; the block then fills a fifth segment.
inline constexpr std::size_t block_bytes_max = 320 * 1024;

/// Bytes of the next block when `left` bytes of a stream remain.
constexpr std::size_t next_block_bytes(std::size_t left) {
  return left <= block_bytes_max ? left : block_bytes_usual;
}

/// One piece of a transfer, as it arrives. Without a `hold`, the bytes are valid only during the
/// call that passes the block. With a hold, they stay valid until the hold is released, and the
/// sender cannot reuse that memory until then.
struct Block {
  TransferId id;
  std::uint64_t offset = 0;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> hold = nullptr;
};

/// Returns a block that stays valid after the call: the block itself if it has a hold, otherwise a
/// copy.
inline Block kept(const Block& block) {
  if (block.hold) return block;
  const auto copy =
      std::make_shared<const std::vector<std::byte>>(block.bytes.begin(), block.bytes.end());
  return {block.id, block.offset, *copy, copy};
}

/// Asks to stop streaming `id` to `to`. Has no effect if the transfer is over.
struct Cancel {
  PeerId to{};
  TransferId id;
};

/// The effects of one or more calls. The caller drains the lists; protocols only append to them.
struct Effects {
  std::vector<Outgoing> messages;
  std::vector<Transfer> transfers;
  std::vector<Cancel> cancels;
  std::vector<Fact> facts;

  void send(PeerId to, Message message) { messages.push_back({to, std::move(message)}); }
  void tell(Fact fact) { facts.push_back(std::move(fact)); }
};

}  // namespace gv
