// The rules for statements that others may make about a peer.
#include "net/roster.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "net/identity.hpp"
#include "net/wire.hpp"

namespace gv {
namespace {

struct Known {
  KeyPair us = generate_key_pair();
  KeyPair them = generate_key_pair();
  Roster roster{{.name = "us", .key = us.public_key}, {{.name = "them", .key = them.public_key}}};

  Member member() const {
    return {.id = peer_id(them.public_key), .name = "them", .address = "192.0.2.1:7000"};
  }
};

std::string problem(const Roster& roster, const Member& member) {
  Message message = PushPull{.members = {member}};
  return roster.admit(message);
}

}  // namespace

TEST_CASE("what a peer says of itself is believed where it agrees with the allow-list") {
  const Known known;
  CHECK(problem(known.roster, known.member()).empty());
  Member member = known.member();
  member.address = "";
  CHECK(problem(known.roster, member).empty());
}

TEST_CASE("unsound names and addresses and incarnations of peers are refused") {
  const Known known;
  Member member = known.member();
  for (const char* name : {"", "a b", "a\nb", "\033[2J"}) {
    member.name = name;
    CHECK(problem(known.roster, member).find("not a name") != std::string::npos);
  }
  member = known.member();
  for (const char* address : {"x y z", "no-port-here", "a:0", "a:65536", "-a:1", "_:1", ":1"}) {
    member.address = address;
    CHECK(problem(known.roster, member).find("dialled") != std::string::npos);
  }
  member = known.member();
  member.incarnation = ~std::uint64_t{0};
  CHECK(problem(known.roster, member).find("incarnation") != std::string::npos);
}

TEST_CASE("rumours on every kind of message are judged") {
  const Known known;
  Member member = known.member();
  member.address = "x y z";
  for (Message message :
       {Message(Ping{.rumors = {member}}), Message(PingRequest{.rumors = {member}}),
        Message(Ack{.rumors = {member}}), Message(Nack{.rumors = {member}}),
        Message(PushPull{.members = {member}})}) {
    CHECK_FALSE(known.roster.admit(message).empty());
  }
}

TEST_CASE("a peer is called what the allow-list calls it") {
  const Known known;
  Member member = known.member();
  member.name = "another";
  Message message = Ping{.rumors = {member}};
  CHECK(known.roster.admit(message).empty());
  CHECK(std::get<Ping>(message).rumors.front().name == "them");
}

TEST_CASE("a hello needs a name and an address that can be dialled or none") {
  CHECK(Roster::problem(Hello{.name = "a", .advertise = "a:1"}).empty());
  CHECK(Roster::problem(Hello{.name = "a"}).empty());
  CHECK_FALSE(Roster::problem(Hello{.name = "a", .advertise = "a"}).empty());
  CHECK_FALSE(Roster::problem(Hello{.name = "\033", .advertise = "a:1"}).empty());
}

}  // namespace gv
