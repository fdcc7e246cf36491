// The rules for statements about a peer: its name, key, address and incarnation.
#include "net/roster.hpp"

#include <algorithm>
#include <variant>

namespace gv {
namespace {

/// A peer's first incarnation is the time in milliseconds since 1970, and each false rumour raises
/// it by one. So a correct peer never comes near this limit, unless its clock is wrong by thousands
/// of years. Incarnations can still be raised beyond the limit without overflow.
constexpr std::uint64_t incarnation_max = std::uint64_t{1} << 48;

bool is_address_or_empty(std::string_view address) {
  return address.empty() || is_address(address);
}

/// The peers that a message describes; null if it describes none.
std::vector<Member>* members_of(Message& message) {
  return std::visit(
      [](auto& known) -> std::vector<Member>* {
        if constexpr (requires { known.rumors; }) return &known.rumors;
        if constexpr (requires { known.members; }) return &known.members;
        return nullptr;
      },
      message);
}

}  // namespace

Roster::Roster(const AuthorizedPeer& self, const std::vector<AuthorizedPeer>& authorized)
    : self_(peer_id(self.key)) {
  for (const AuthorizedPeer& peer : authorized) peers_[peer_id(peer.key)] = peer;
  peers_[self_] = self;
}

std::string Roster::problem(const Hello& hello) {
  if (!is_peer_name(hello.name)) return "the name in its hello is not a name";
  if (!is_address_or_empty(hello.advertise)) return "the address in its hello cannot be dialled";
  return {};
}

std::string Roster::problem(Member& member) const {
  const auto found = peers_.find(member.id);
  if (found == peers_.end()) return {};
  const AuthorizedPeer& known = found->second;
  if (!is_peer_name(member.name)) return "the name of " + known.name + " in it is not a name";
  if (!is_address_or_empty(member.address)) {
    return "the address of " + known.name + " in it cannot be dialled";
  }
  if (member.incarnation > incarnation_max) {
    return "the incarnation of " + known.name + " in it is beyond all bounds";
  }
  member.name = known.name;
  return {};
}

std::string Roster::admit(Message& message) const {
  std::vector<Member>* members = members_of(message);
  if (members == nullptr) return {};
  for (Member& member : *members) {
    std::string unsound = problem(member);
    if (!unsound.empty()) return unsound;
  }
  return {};
}

}  // namespace gv
