// Messages of neighbours on their way: put together from blocks, and kept until they are due.
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

namespace gv {

/// Holds what has come in one generation and in the one that may follow. Pure. How much that can be
/// is decided by how far others may be ahead of us, which the waiting of rounds bounds.
class RoundInbox {
 public:
  using Bytes = std::shared_ptr<const std::vector<std::byte>>;
  /// How long a message of that round is that begins so; nullopt if more of it must be known.
  using Size = std::function<std::optional<std::size_t>(std::uint64_t round,
                                                        std::span<const std::byte> begin)>;

  /// `size` is asked for the generation we are in alone. No message of any is longer than `most`.
  RoundInbox(Size size, std::size_t most) : size_(std::move(size)), most_(most) {}

  /// Only what belongs to the generation of this key is of use from here on, and has its sizes.
  void enter(std::uint64_t key);

  /// A block of a message, of the generation we are in or of another that may begin. False if it is
  /// no next block of anything: links may bring a block twice, and a message counts once.
  bool receive(PeerId from, const Block& block);

  /// A whole message of this peer and round has come, whether it was taken or not, or what comes
  /// of it is too late.
  bool has(PeerId from, std::uint64_t round) const { return is_over({from, round}); }
  /// A whole message of that round or a later one has come.
  bool has_since(PeerId from, std::uint64_t round) const;

  struct Parcel {
    PeerId from{};
    std::uint64_t round = 0;
    Bytes bytes;
  };
  /// All whole messages that were not taken before, of rounds up to `last`, by peer and round.
  std::vector<Parcel> take(std::uint64_t last);
  /// Rounds before this one are over: nobody asks for them, and what comes of them is too late.
  void close_before(std::uint64_t round);

  /// Bytes that have come in this generation.
  std::uint64_t received() const { return received_; }

 private:
  /// What has come of a message so far.
  using TransferAccepted = std::vector<std::byte>;
  using Name = std::pair<PeerId, std::uint64_t>;

  bool settle(const Name& name);
  bool is_over(const Name& name) const;

  Size size_;
  std::size_t most_;
  std::uint64_t key_ = 0;
  std::map<std::uint64_t, std::map<Name, TransferAccepted>> coming_;  ///< By key.
  std::map<Name, Bytes> whole_;                                       ///< Null: it was taken.
  std::uint64_t open_from_ = 0;                                       ///< Earlier rounds are over,
  std::map<PeerId, std::uint64_t> open_from_each_;  ///< and of each peer's, these.
  std::uint64_t received_ = 0;
};

}  // namespace gv
