// What a protocol wants done: it appends here and touches nothing else.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/time.hpp"
#include "consensus/message/message.hpp"
#include "consensus/message/snapshot.hpp"

namespace gv {

/// A message to send on the control link to `to`. May be lost; never blocks.
struct Outgoing {
  PeerId to{};
  Message message;
};

/// A message as it arrives. `from` is authenticated: it is the key of the link it came on.
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
  /// Of no use once there is a newer one like it: of those that wait for one peer and have not
  /// begun, a lane keeps the newest. What has begun goes on to its end, so something always comes.
  bool superseded_by_next = false;
};

/// Whether `waiting`, of which nothing has left yet, is of no use any more beside `newer`, which
/// goes to the same peer.
inline bool supersedes(const Transfer& newer, const Transfer& waiting) {
  return newer.superseded_by_next && waiting.superseded_by_next && waiting.offset == 0;
}

/// What blocks should have where many follow each other. Within a host TCP cuts them after every
/// 65,464 bytes (IPv6; by IPv4 some more). Four such segments hold this and what a lane puts before
/// a block, where a few bytes more would travel in a fifth, and each takes both ends some 5 us.
/// Whole groups of 512 floats, which value codecs scale together.
inline constexpr std::size_t block_bytes_usual = 127 * 512 * sizeof(float);

/// Largest block on a bulk lane: one as usual with a rest that is not worth one of its own, which
/// fills a fifth segment.
inline constexpr std::size_t block_bytes_max = 320 * 1024;

/// Bytes of the next block where so many are left of a stream.
constexpr std::size_t next_block_bytes(std::size_t left) {
  return left <= block_bytes_max ? left : block_bytes_usual;
}

/// One piece of a transfer as it arrives. The bytes are only valid during the call, or with a loan
/// for as long as somebody keeps it; meanwhile the sender cannot use that memory for anything else.
struct Block {
  TransferId id;
  std::uint64_t offset = 0;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> hold = nullptr;
};

/// The same block, to be kept: a copy of it, or itself where it is on loan.
inline Block kept(const Block& block) {
  if (block.hold) return block;
  const auto copy =
      std::make_shared<const std::vector<std::byte>>(block.bytes.begin(), block.bytes.end());
  return {block.id, block.offset, *copy, copy};
}

/// Stop streaming `id` to `to`; harmless if it is over.
struct Cancel {
  PeerId to{};
  TransferId id;
};

/// Something people and tests can read: counted, logged as one JSON line, shown by `status`.
struct Event {
  std::string name;            ///< Stable, snake_case: "member_dead", "exchange_refused", ...
  std::optional<PeerId> peer;  ///< The other peer it is about.
  Reason reason = Reason::none;
  std::string detail;  ///< A sentence fragment for people; may be empty.
  std::vector<std::pair<std::string, double>> numbers;  ///< Named figures, units in the names.
};

/// A model fetched from another peer.
struct DownloadedModel {
  PeerId source{};
  std::vector<float> values;  ///< With what followed them in the snapshot.
  std::uint64_t step = 0;
};

/// The to-do list of one or more calls. The caller drains it; protocols only append.
struct Effects {
  std::vector<Outgoing> messages;
  std::vector<Transfer> transfers;
  std::vector<Cancel> cancels;
  std::vector<Event> events;
  std::vector<Force> forces;  ///< To be added to the live model at the next job boundary.
  std::vector<DownloadedModel> fetched;  ///< To be adopted at the next job boundary.

  void send(PeerId to, Message message) { messages.push_back({to, std::move(message)}); }
};

}  // namespace gv
