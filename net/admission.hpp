// Asks the peer that has made a ticket to admit this machine to its swarm.
#pragma once

#include <chrono>
#include <string>

#include "net/ticket.hpp"

namespace gv {

/// The result of using a ticket.
struct Admission {
  JoinAnswer answer;  ///< Checked: the first certificate is ours and belongs to the ticket's swarm.
  std::string address;  ///< The address at which the inviting peer answered.
  std::string problem;  ///< Why we were not admitted, as a sentence without a full stop; empty: we
                        ///< were.
  std::string remedy;
  bool is_silent = false;  ///< True if no peer answered at any address, not even by a refused
                           ///< handshake. A later try may find one.
};

/// How long a guest tries one address.
struct GuestPatience {
  std::chrono::milliseconds answer = std::chrono::seconds(10);   ///< For an answer of a peer there.
  std::chrono::milliseconds silence = std::chrono::seconds(10);  ///< For any sign of a peer there.
};

/// The request of a guest with this ticket, which proves that it holds `own`.
JoinRequest join_request(const Ticket& ticket, const KeyPair& own, const std::string& name);

/// Dials the ticket's addresses, one after another, and proves there that we have the ticket and
/// hold `own`. The CURVE handshake proves the secret, which is never sent. Blocks for at most
/// `patience` for each address.
Admission ask_to_join(const Ticket& ticket, const KeyPair& own, const std::string& name,
                      const GuestPatience& patience = {});

}  // namespace gv
