// Messages of neighbours on their way: put together from blocks, and kept until they are due.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "consensus/effects.hpp"

namespace gv {

/// Holds what has come in one epoch and in the one that may follow. Pure. How much that can be is
/// decided by how far others may be ahead of us, which the waiting of rounds bounds.
class ParcelBox {
 public:
  using Bytes = std::shared_ptr<const std::vector<std::byte>>;
  /// How long a message of that round is.
  using Size = std::function<std::size_t(std::uint64_t round)>;

  explicit ParcelBox(Size size) : size_(std::move(size)) {}

  /// Only what belongs to the epoch of this key is of use from here on.
  void enter(std::uint64_t key);

  /// A block of a message, of the epoch we are in or of another that may begin. False if it is no
  /// next block of anything, or of what has come already.
  bool receive(PeerId from, const Block& block);

  /// A whole message of this peer and round has come, whether it was taken or not.
  bool has(PeerId from, std::uint64_t round) const { return whole_.contains({from, round}); }
  /// The same of that round or a later one.
  bool has_since(PeerId from, std::uint64_t round) const;

  struct Parcel {
    PeerId from{};
    std::uint64_t round = 0;
    Bytes bytes;
  };
  /// All whole messages that were not taken before, of rounds up to `last`, by peer and round.
  std::vector<Parcel> take(std::uint64_t last);
  /// Nobody asks for rounds before this one any more. Of each sender's last rounds it is remembered
  /// that they came all the same, so that nothing counts twice if it comes twice.
  void forget_before(std::uint64_t round);

  /// Bytes that have come in this epoch.
  std::uint64_t received() const { return received_; }

 private:
  /// What began to come under a key that may be the next epoch's.
  struct Coming {
    std::shared_ptr<std::vector<std::byte>> bytes;
    std::size_t filled = 0;
  };
  using Name = std::pair<PeerId, std::uint64_t>;

  bool is_forgotten(const Name& name) const;

  Size size_;
  std::uint64_t key_ = 0;
  std::map<std::uint64_t, std::map<Name, Coming>> coming_;  ///< By key.
  std::map<Name, Bytes> whole_;                             ///< Null: it was taken.
  std::map<PeerId, std::uint64_t> newest_;  ///< Round of which a whole message came, by sender.
  std::uint64_t asked_from_ = 0;            ///< No round before this one is asked for.
  std::uint64_t received_ = 0;
};

}  // namespace gv
