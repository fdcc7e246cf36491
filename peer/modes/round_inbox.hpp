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
#include "consensus/mixing/round_plan.hpp"
#include "consensus/transfer/reassembly.hpp"

namespace gv {

/// How many messages of each sender an inbox holds until they are taken.
struct InboxLimit {
  std::size_t messages = 256;
  /// What happens to a further message: true if it replaces the sender's oldest one, false if it is
  /// dropped.
  bool keeps_newest = false;
  bool is_loss = true;  ///< False if a message that a newer one has replaced is of no use.
};

/// The limit for the messages of a generation. If peers wait for each other, no honest sender
/// reaches it (see RoundPlan::waiting_max). `serves` means that we are a centre that counts the
/// messages of its workers.
InboxLimit inbox_limit(const MixRule& rule, const RoundPlan& plan, bool serves);

/// Holds messages of the current generation, and of generations that may follow. The number of
/// messages of each sender is limited (see InboxLimit). Pure.
class RoundInbox {
 public:
  /// The largest number of messages of one sender that wait in a generation without a lower limit.
  static constexpr std::size_t messages_max = InboxLimit{}.messages;
  /// In a generation that we have not entered, at least this many messages of a sender may wait,
  /// because its rule may differ from the present one.
  static constexpr std::size_t early_max = 16;

  /// Returns the length in bytes of a message of `round` that begins with `begin`; nullopt if
  /// `begin` is too short to tell.
  using Size = std::function<std::optional<std::size_t>(std::uint64_t round,
                                                        std::span<const std::byte> begin)>;

  /// `size` is called only for messages of the current generation. No message is longer than `most`
  /// bytes.
  RoundInbox(Size size, std::size_t most) : size_(std::move(size)), most_(most) {}

  /// Enters the generation with this key, and drops messages of other generations. `order` lists
  /// its peers by rank; messages of other senders are dropped.
  void enter(std::uint64_t key, std::span<const PeerId> order, const InboxLimit& limit = {});

  /// Takes a block of a message of the current generation or of one that may begin. Returns false
  /// and drops the block in three cases: if the sender is not in the current generation, if the
  /// block does not continue a message (links may deliver a block twice, but a message counts
  /// once), or if it begins a message beyond the limit for its sender.
  bool receive(PeerId from, const Block& block);

  /// True if the peer's message of this round has arrived completely, even if it was taken, or if
  /// the round is closed.
  bool has(PeerId from, std::uint64_t round) const { return is_over({from, round}); }
  /// True if the peer's message of this round or of a later one has arrived completely.
  bool has_since(PeerId from, std::uint64_t round) const;
  /// True if a complete message has arrived and was not taken yet.
  bool has_news() const;

  /// Takes all complete messages of rounds up to `last` that were not taken before, sorted by peer
  /// and round.
  std::vector<MixMessage> take(std::uint64_t last);
  /// Closes all rounds before `round`: drops their messages, including those that arrive later.
  void close_before(std::uint64_t round);

  /// Number of bytes that have arrived in this generation.
  std::uint64_t received() const { return received_; }
  /// Number of messages held, partly or completely arrived, plus the number of taken messages that
  /// are remembered.
  std::size_t held() const;
  /// Number of messages that were dropped, in all generations, because their sender was too far
  /// ahead. Excludes messages that a newer one has made useless.
  std::uint64_t dropped() const { return dropped_; }

  friend class Fields;
  static constexpr std::size_t field_count = 11;
  friend bool operator==(const RoundInbox& a, const RoundInbox& b);

 private:
  /// The part of a message that has arrived. While the message's length is unknown, the maximum is
  /// assumed.
  struct Arriving {
    Reassembly blocks;
    std::vector<std::byte> bytes;
  };
  using Name = std::pair<PeerId, std::uint64_t>;

  std::size_t waiting(std::uint64_t key, PeerId from) const;
  bool make_room(std::uint64_t key, const Name& name);
  bool drop_older(std::uint64_t key, const Name& name);
  bool settle(const Name& name);
  bool is_over(const Name& name) const;

  Size size_;
  std::size_t most_;
  std::uint64_t key_ = 0;
  std::vector<PeerId> order_;  ///< The peers of the current generation, by rank.
  InboxLimit limit_;           ///< The limit in the current generation.
  /// Incomplete messages, by the key of their generation.
  std::map<std::uint64_t, std::map<Name, Arriving>> coming_;
  /// Complete messages. A message that was taken leaves null in its place.
  std::map<Name, std::shared_ptr<const std::vector<std::byte>>> whole_;
  std::uint64_t open_from_ = 0;  ///< All rounds before this one are closed for all peers.
  /// For each peer, the first of its rounds that is not closed.
  std::map<PeerId, std::uint64_t> open_from_each_;
  std::uint64_t received_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace gv
