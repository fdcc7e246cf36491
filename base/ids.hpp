// Strong identifiers, so that two integers cannot be swapped.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace gv {

/// A peer's id, derived from its public key. The holder of the key is the peer.
enum class PeerId : std::uint64_t {};

/// One bulk transfer or exchange. `session` is drawn at random when `owner`'s process starts, so
/// ids of an earlier life never match; `number` counts up from 1 within the session.
struct TransferId {
  PeerId owner{};
  std::uint64_t session = 0;
  std::uint64_t number = 0;

  friend auto operator<=>(const TransferId&, const TransferId&) = default;
};

/// Numbers the transfers one peer starts in one life, whichever protocol starts them.
struct TransferNumbers {
  std::uint64_t session = 0;
  std::uint64_t last = 0;

  TransferId next(PeerId owner) { return {owner, session, ++last}; }
};

/// Sixteen hexadecimal digits.
std::string to_string(PeerId id);

/// "owner/number", for events and logs.
std::string to_string(const TransferId& id);

}  // namespace gv
