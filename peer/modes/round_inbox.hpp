// Puts neighbours' messages together from blocks, and keeps them until they are due.
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

#include "base/state_hash.hpp"
#include "consensus/message/effects.hpp"
#include "consensus/mixing/mix_message.hpp"
#include "consensus/transfer/reassembly.hpp"

namespace gv {

/// Holds messages of the current generation and of one that may follow. Pure. How far other peers
/// may be ahead of us bounds its size; the waiting of rounds bounds that, and `messages_max` what a
/// peer sends that does not wait.
class RoundInbox {
 public:
  /// Messages that one peer may have sent in a generation and we have not taken. Sound peers, which
  /// wait for others, are never that far ahead.
  static constexpr std::size_t messages_max = 256;

  /// Length of the message of `round` that begins with `begin`; nullopt if that needs more of it.
  using Size = std::function<std::optional<std::size_t>(std::uint64_t round,
                                                        std::span<const std::byte> begin)>;

  /// `size` is only called for the current generation. No message is longer than `most`.
  RoundInbox(Size size, std::size_t most) : size_(std::move(size)), most_(most) {}

  /// Enters the generation of this key: only its messages count from here on.
  void enter(std::uint64_t key);

  /// Takes a block of a message of the current generation or of one that may begin. False if it
  /// continues no message: links may bring a block twice, and a message counts once. Neither does a
  /// peer's first block of one message too many.
  bool receive(PeerId from, const Block& block);

  /// The whole message of this peer and round has come (taken or not), or the round is closed.
  bool has(PeerId from, std::uint64_t round) const { return is_over({from, round}); }
  /// A whole message of that round or a later one has come.
  bool has_since(PeerId from, std::uint64_t round) const;

  /// Takes all whole messages of rounds up to `last` not taken before, by peer and round. Senders
  /// get ranks by `order`; messages of peers that are not in it are dropped.
  std::vector<MixMessage> take(std::uint64_t last, std::span<const PeerId> order);
  /// Closes earlier rounds: nothing asks for their messages, and those that still come are dropped.
  void close_before(std::uint64_t round);

  /// Bytes that have come in this generation.
  std::uint64_t received() const { return received_; }
  /// Messages that have come, in part or whole, and names of the messages that were taken.
  std::size_t held() const;

  friend class Fields;
  static constexpr std::size_t field_count = 8;
  friend bool operator==(const RoundInbox& a, const RoundInbox& b) { return equal_states(a, b); }

 private:
  /// The part of a message that has come so far. While its length is unknown it is the longest.
  struct Arriving {
    Reassembly blocks;
    std::vector<std::byte> bytes;
  };
  using Name = std::pair<PeerId, std::uint64_t>;

  std::size_t waiting(std::uint64_t key, PeerId from) const;
  bool settle(const Name& name);
  bool is_over(const Name& name) const;

  Size size_;
  std::size_t most_;
  std::uint64_t key_ = 0;
  std::map<std::uint64_t, std::map<Name, Arriving>> coming_;  ///< By key.
  /// Null: the message was taken.
  std::map<Name, std::shared_ptr<const std::vector<std::byte>>> whole_;
  std::uint64_t open_from_ = 0;                     ///< Earlier rounds are closed.
  std::map<PeerId, std::uint64_t> open_from_each_;  ///< The same for single peers.
  std::uint64_t received_ = 0;
};

}  // namespace gv
