// The file of members: a peer reads back only what the members themselves have signed.
#include "peer/host/member_cache.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "net/key_signer.hpp"
#include "tests/temporary_folder.hpp"

namespace gv {
namespace {

/// A run folder with the members file of a peer that knows two others.
struct Cached {
  Cached() {
    for (const auto* peer : {&first, &second}) {
      const bool is_first = peer == &first;
      Member member{.id = peer_id(peer->public_key),
                    .name = is_first ? "first" : "second",
                    .address = is_first ? "192.0.2.1:7000" : "192.0.2.2:7000"};
      restate(member, KeySigner(*peer, {}));
      members[member.id] = member;
    }
    MemberCache(file()).write(members);
  }

  std::filesystem::path file() const { return folder.path() / "members"; }
  std::vector<AuthorizedPeer> authorized() const {
    return {{.name = "first", .key = first.public_key},
            {.name = "second", .key = second.public_key}};
  }
  std::vector<Member> read(const std::vector<AuthorizedPeer>& list) const {
    return MemberCache(file()).read(Roster({.name = "us", .key = us.public_key}, list),
                                    KeySigner(us, list));
  }
  /// The members read from a file that consists of this line.
  std::vector<Member> read_line(const std::string& line) const {
    std::ofstream(file(), std::ios::trunc) << line << '\n';
    return read(authorized());
  }

  KeyPair us = generate_key_pair();
  KeyPair first = generate_key_pair();
  KeyPair second = generate_key_pair();
  std::map<PeerId, Member> members;
  TemporaryFolder folder;
};

}  // namespace

TEST_CASE("what peers stated is read back from the file of members") {
  const Cached cached;
  const std::vector<Member> read = cached.read(cached.authorized());
  REQUIRE(read.size() == 2);
  for (const Member& member : read) CHECK(member == cached.members.at(member.id));
  CHECK(cached.read({cached.authorized()[0]}).size() == 1);  // The second peer is not listed.
  CHECK(cached.read({}).empty());
}

TEST_CASE("a line of the file of members that was changed is passed over") {
  const Cached cached;
  std::ifstream in(cached.file());
  std::string line;
  REQUIRE(std::getline(in, line));
  CHECK(cached.read_line(line).size() == 1);
  // The readable text before the blank is ignored.
  CHECK(cached.read_line("x@y:1" + line.substr(line.find(' '))).front().address.starts_with("192"));
  for (std::size_t at = line.find(' ') + 1; at < line.size(); ++at) {
    std::string damaged = line;
    damaged[at] = damaged[at] == 'A' ? 'B' : 'A';
    const std::vector<Member> read = cached.read_line(damaged);
    // A member's state is not part of its signed statement, so a changed state does no harm.
    if (!read.empty()) CHECK(read.front().address == cached.members.at(read.front().id).address);
    CHECK(cached.read_line(line.substr(0, at)).empty());
  }
  for (const char* other : {"", " ", "first@192.0.2.1:7000", "first@192.0.2.1:7000 AAAA", "\0"}) {
    CHECK(cached.read_line(other).empty());
  }
}

TEST_CASE("an address that another key has signed is not read from the file of members") {
  const Cached cached;
  std::map<PeerId, Member> members = cached.members;
  Member& forged = members.at(peer_id(cached.first.public_key));
  forged.address = "198.51.100.1:1";
  restate(forged, KeySigner(cached.second, {}));
  MemberCache(cached.file()).write(members);
  const std::vector<Member> read = cached.read(cached.authorized());
  REQUIRE(read.size() == 1);
  CHECK(read.front().id == peer_id(cached.second.public_key));
}

}  // namespace gv
