// The target `allow_list`: the file with the keys of peers that may join.
#include <set>
#include <string>

#include "base/check.hpp"
#include "net/identity.hpp"
#include "tests/fuzz/scratch.hpp"
#include "tests/fuzz/target.hpp"

namespace gv::fuzz {
namespace {

const std::vector<AuthorizedPeer>& three_peers() {
  static const std::vector<AuthorizedPeer> peers{
      {.name = "anna", .key = generate_key_pair().public_key, .address = {}},
      {.name = "b-2", .key = generate_key_pair().public_key, .address = "host:9000"},
      {.name = "c", .key = generate_key_pair().public_key, .address = "[::1]:1"}};
  return peers;
}

void feed(std::span<const std::byte> bytes) {
  static MemoryFile file;
  file.write(bytes);
  const LoadedAuthorizedPeers loaded = load_authorized_peers(file.path());
  std::set<std::string> names;
  std::set<PublicKey> keys;
  for (const AuthorizedPeer& peer : loaded.peers) {
    check(is_peer_name(peer.name), "names are names");
    check(peer.address.empty() || is_address(peer.address), "addresses can be dialled");
    check(names.insert(peer.name).second && keys.insert(peer.key).second, "no line is there twice");
  }
  (void)problems_of_change("fuzzed", three_peers(), loaded.peers, three_peers()[0].key);
}

std::vector<Bytes> seeds() {
  std::string text = "# a comment\n\n";
  for (const AuthorizedPeer& peer : three_peers()) {
    text += peer.name + "  " + to_text(peer.key) + " " + peer.address + "\n";
  }
  return {bytes_of(text), bytes_of(text.substr(0, text.size() / 2))};
}

}  // namespace

Target allow_list_target() { return {.name = "allow_list", .feed = feed, .seeds = seeds}; }

}  // namespace gv::fuzz
