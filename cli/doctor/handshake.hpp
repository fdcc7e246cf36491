// Proves to another peer's control port that we hold our key, and finds out which key that peer
// holds.
#pragma once

#include <string>
#include <vector>

#include "cli/doctor/judgement.hpp"
#include "net/identity.hpp"

namespace gv {

/// Tries the keys of `others` at "HOST:PORT" until the peer there accepts one, for a few seconds at
/// most. No message follows the handshake, so the peer takes us neither for a member nor for a
/// second process with our key.
Handshake shake_hands(const std::string& address, const KeyPair& identity,
                      const std::vector<AuthorizedPeer>& others);

}  // namespace gv
