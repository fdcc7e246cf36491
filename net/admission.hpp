// Asks the peer that has made a ticket to let this machine into its swarm.
#pragma once

#include <chrono>
#include <string>

#include "net/ticket.hpp"

namespace gv {

/// The outcome of a ticket.
struct Admission {
  JoinAnswer answer;    ///< Checked: the first certificate is ours and of the ticket's swarm.
  std::string address;  ///< Where the inviting peer answered.
  std::string problem;  ///< Why we are not in, as a sentence without a full stop; empty: we are.
  std::string remedy;
};

/// Dials the ticket's addresses, one after another, and proves there that we have the ticket and
/// hold `own`. The handshake of CURVE is the proof of the secret, which is never sent. Blocks for
/// at most `patience` for each address.
Admission ask_to_join(const Ticket& ticket, const KeyPair& own, const std::string& name,
                      std::chrono::milliseconds patience = std::chrono::seconds(10));

}  // namespace gv
