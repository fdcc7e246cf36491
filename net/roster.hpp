// The peers that we know by the allow-list, against which all is checked that others say of peers.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "consensus/message/message.hpp"
#include "net/identity.hpp"
#include "net/wire.hpp"

namespace gv {

/// Judges what arrives about peers, over links and from disk, before any other part believes it.
/// A sound peer passes on only what it has judged itself, so an unsound message speaks against its
/// sender, even if it describes another peer.
class Roster {
 public:
  Roster() = default;
  /// `self` is our own line of the allow-list; `authorized` may contain it or not.
  Roster(const AuthorizedPeer& self, const std::vector<AuthorizedPeer>& authorized);

  /// What is unsound about a hello; empty if nothing is.
  static std::string problem(const Hello& hello);

  /// What is unsound about the peers that a message describes; empty if nothing is. In a sound
  /// message each peer of the list gets the list's name: what others call it is their own affair.
  /// Descriptions of peers that are not on the list are left alone, as no part reads them.
  std::string admit(Message& message) const;

  /// Whether this is another peer of the list.
  bool is_other(PeerId peer) const { return peer != self_ && peers_.contains(peer); }

 private:
  std::string problem(Member& member) const;

  std::map<PeerId, AuthorizedPeer> peers_;
  PeerId self_{};
};

}  // namespace gv
