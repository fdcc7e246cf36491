// A peer's statement about itself, which others pass on only with its signature.
#pragma once

#include <cstdint>
#include <string>

#include "consensus/message/message.hpp"
#include "consensus/message/signer.hpp"

namespace gv {

/// The fields of a Member that its signature covers, signed in the domain `statement_domain`. If
/// the fields change, both the domain and the wire need a new version.
struct Statement {
  PeerId id{};
  std::string address;
  std::uint64_t incarnation = 0;
  std::uint64_t layout_hash = 0;
  std::uint64_t version = 0;
  Progress progress;
};

inline constexpr char statement_domain[] = "grapevine statement 4";

/// Turns the present fields of `self` into the next version of our own statement, and signs it.
void restate(Member& self, const Signer& signer);

/// True if the peer itself has signed the stated fields of `member`.
bool is_signed(const Member& member, const Signer& signer);

/// True if `a` is a later statement of a peer than `b`. A restarted peer begins with a higher
/// incarnation, unless its wall clock went back. In that case it raises its incarnation when it
/// learns of its earlier statement.
bool is_later_statement(const Member& a, const Member& b);

}  // namespace gv
