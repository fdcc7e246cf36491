// Asks the peer that made a ticket to admit this machine to its swarm.
#pragma once

#include <chrono>
#include <string>

#include "net/ticket.hpp"

namespace gv {

/// The result of using a ticket.
struct Admission {
  JoinAnswer answer;    ///< The checked answer. Its first certificate is ours and belongs to the
                        ///< ticket's swarm.
  std::string address;  ///< The address at which the inviting peer answered.
  /// Why we were not admitted, as a sentence without a full stop. Empty if we were admitted.
  std::string problem;
  std::string remedy;
  /// True if no peer answered at any address, not even by refusing the handshake. A later try may
  /// find a peer.
  bool is_silent = false;
};

/// How long a guest tries one address.
struct GuestPatience {
  /// Time limit for an answer from a peer at the address.
  std::chrono::milliseconds answer = std::chrono::seconds(10);
  /// Time limit for the first sign of a peer at the address.
  std::chrono::milliseconds silence = std::chrono::seconds(10);
};

/// Returns a guest's request to join with this ticket. The request proves that the guest holds the
/// key `own`.
JoinRequest join_request(const Ticket& ticket, const KeyPair& own, const std::string& name);

/// Dials the ticket's addresses, one after another, and proves there that we have the ticket and
/// hold the key `own`. The CURVE handshake proves that we know the ticket's secret, which is never
/// sent. Blocks for at most `patience` for each address.
Admission ask_to_join(const Ticket& ticket, const KeyPair& own, const std::string& name,
                      const GuestPatience& patience = {});

}  // namespace gv
