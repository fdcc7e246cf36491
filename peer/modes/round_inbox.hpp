// Assembles neighbours' messages from blocks, and keeps them until they are due.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "consensus/message/effects.hpp"
#include "consensus/mixing/mix_message.hpp"
#include "consensus/transfer/reassembly.hpp"

namespace gv {

/// Holds messages of the current generation and of generations that may follow. Its size is
/// bounded: a peer that waits for others cannot be far ahead of us, and `messages_max` limits one
/// that does not wait. Pure.
class RoundInbox {
 public:
  /// The most messages that are held for one peer in a generation before we take them. Sound peers
  /// that wait for others are never that far ahead.
  static constexpr std::size_t messages_max = 256;

  /// Length of the message of `round` that starts with `begin`; nullopt if `begin` is too short to
  /// tell.
  using Size = std::function<std::optional<std::size_t>(std::uint64_t round,
                                                        std::span<const std::byte> begin)>;

  /// `size` is only called for the current generation. No message is longer than `most`.
  RoundInbox(Size size, std::size_t most) : size_(std::move(size)), most_(most) {}

  /// Enters the generation of this key: only its messages count from here on. `keeps_newest`: its
  /// peers do not wait for each other, so one of them may be far ahead, and its oldest message then
  /// makes room for the new one. Otherwise the new one is dropped.
  void enter(std::uint64_t key, bool keeps_newest = false);

  /// Takes a block of a message of the current generation or of one that may begin. False, and the
  /// block is dropped, if it continues no message (links may bring a block twice, and a message
  /// counts once) or begins one message too many of its peer (see enter()).
  bool receive(PeerId from, const Block& block);

  /// True if the whole message of this peer and round has arrived (taken or not), or the round is
  /// closed.
  bool has(PeerId from, std::uint64_t round) const { return is_over({from, round}); }
  /// True if a complete message of that round or a later one has arrived.
  bool has_since(PeerId from, std::uint64_t round) const;
  /// True if a complete message has arrived that was not taken yet.
  bool has_news() const;

  /// Takes all complete messages of rounds up to `last` that were not taken before, by peer and
  /// round. `order` gives senders their ranks; messages of peers that are not in it are dropped.
  std::vector<MixMessage> take(std::uint64_t last, std::span<const PeerId> order);
  /// Closes earlier rounds: drops their messages, including those that arrive later.
  void close_before(std::uint64_t round);

  /// Bytes that have arrived in this generation.
  std::uint64_t received() const { return received_; }
  /// Number of messages that have arrived partly or completely, including the names of taken ones.
  std::size_t held() const;
  /// Number of messages dropped in all generations because their peer was too far ahead.
  std::uint64_t dropped() const { return dropped_; }

  friend class Fields;
  static constexpr std::size_t field_count = 10;
  friend bool operator==(const RoundInbox& a, const RoundInbox& b);

 private:
  /// The received part of a message. While its length is unknown, the longest possible is assumed.
  struct Arriving {
    Reassembly blocks;
    std::vector<std::byte> bytes;
  };
  using Name = std::pair<PeerId, std::uint64_t>;

  std::size_t waiting(std::uint64_t key, PeerId from) const;
  bool drop_older(std::uint64_t key, const Name& name);
  bool settle(const Name& name);
  bool is_over(const Name& name) const;

  Size size_;
  std::size_t most_;
  std::uint64_t key_ = 0;
  bool keeps_newest_ = false;
  std::map<std::uint64_t, std::map<Name, Arriving>> coming_;  ///< By key.
  /// Null: the message was taken.
  std::map<Name, std::shared_ptr<const std::vector<std::byte>>> whole_;
  std::uint64_t open_from_ = 0;                     ///< Earlier rounds are closed.
  std::map<PeerId, std::uint64_t> open_from_each_;  ///< The same for the rounds of single peers.
  std::uint64_t received_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace gv
