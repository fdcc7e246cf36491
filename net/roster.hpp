// The peers on the allow-list, and the checks of statements about them.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "consensus/message/message.hpp"
#include "net/identity.hpp"
#include "net/wire.hpp"

namespace gv {

/// Checks descriptions of peers, from links and from disk, before any other part of the program
/// uses them. A correct peer passes on only descriptions that it has checked itself, so an invalid
/// message counts against its sender, even if it describes another peer.
class Roster {
 public:
  Roster() = default;
  /// `self` is our own line of the allow-list; `authorized` may also contain it.
  Roster(const AuthorizedPeer& self, const std::vector<AuthorizedPeer>& authorized);

  /// Returns the problem with a hello; empty if it is valid.
  static std::string problem(const Hello& hello);

  /// Returns the problem with the peers that a message describes; empty if they are valid. Other
  /// peers may use other names, so the names of listed peers in the message are replaced by those
  /// on our list. Leaves descriptions of unlisted peers unchanged, because no other part reads
  /// them.
  std::string admit(Message& message) const;

  /// True if `peer` is another peer on the list.
  bool is_other(PeerId peer) const { return peer != self_ && peers_.contains(peer); }

 private:
  std::string problem(Member& member) const;

  std::map<PeerId, AuthorizedPeer> peers_;
  PeerId self_{};
};

}  // namespace gv
