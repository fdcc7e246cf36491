// Lanes between two peers that cannot reach each other, through a third peer.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <utility>

#include "net/pair_token.hpp"
#include "net/relay_service.hpp"
#include "tests/net/linked_peers.hpp"

namespace gv {

using namespace std::chrono_literals;

namespace {

/// The first and the third peer open a lane through the second and send 1000 bytes over it.
void meet_through_the_second(LinkedPeers& peers) {
  peers.link(0, 1);
  peers.link(1, 2);
  peers[0].relays = peers[2].relays = {peer(1)};
  peers.send(0, 2, 1000);
  REQUIRE(peers.until([&] { return peers[2].received == 1000; }));
}

}  // namespace

TEST_CASE("two peers that only dial out send each other blocks through a third", "[unit]") {
  LinkedPeers peers(3, {1});
  peers.link(0, 1);
  peers.link(1, 2);
  peers[0].relays = peers[2].relays = {peer(1)};
  peers.send(0, 2, 300'000);
  REQUIRE(peers.until([&] { return peers[2].received == 300'000; }));
  peers.send(2, 0, 100'000);
  REQUIRE(peers.until([&] { return peers[0].received == 100'000; }));
  CHECK(peers[0].lanes->send_message(peer(2), Ready{}));
  REQUIRE(peers.until([&] { return peers[2].messages.size() == 1; }));
  CHECK(peers[0].lanes->relay_of(peer(2)) == peer(1));
  CHECK(peers[2].lanes->relay_of(peer(0)) == peer(1));
  CHECK(peers[1].lanes->counters().streams_relayed == 1);
  CHECK(peers[1].lanes->counters().bytes_relayed > 400'000);
  // The relay does not count the relayed lane as one of its own.
  CHECK_FALSE(has_opened(peers[1]));
}

TEST_CASE("a peer that no message reaches is met through a relay also without blocks", "[unit]") {
  LinkedPeers peers(3, {1});
  peers.link(0, 1);
  peers.link(1, 2);
  peers[2].relays = {peer(1)};
  peers[2].lanes->reach(peer(0));
  REQUIRE(peers.until([&] { return has_opened(peers[0]) && has_opened(peers[2]); }));
  CHECK(peers[0].lanes->send_message(peer(2), Ready{}));
  CHECK(peers.until([&] { return peers[2].messages.size() == 1; }));
}

TEST_CASE("two ends that ask at once, one relay or two, get one lane", "[unit]") {
  const bool is_one = GENERATE(true, false);
  LinkedPeers peers(4, {1, 3});
  for (const std::size_t relay : {1U, 3U}) {
    peers.link(0, relay);
    peers.link(relay, 2);
  }
  peers[0].relays = {peer(1)};
  peers[2].relays = {peer(is_one ? 1 : 3)};
  peers.send(0, 2, 1000);
  peers.send(2, 0, 1000);
  REQUIRE(peers.until([&] { return peers[2].received == 1000 && peers[0].received == 1000; }));
  CHECK(peers[0].refused.empty());
  CHECK(peers[2].refused.empty());
  CHECK(peers[0].lanes->relay_of(peer(2)) == peer(1));
  CHECK(peers[2].lanes->relay_of(peer(0)) == peer(1));
}

TEST_CASE("no relay is asked for a peer that is out of reach for a moment only", "[unit]") {
  LinkedPeers peers(3, {1}, 300ms);
  peers.link(0, 1);
  peers.link(1, 2);
  peers[0].relays = {peer(1)};
  peers[0].lanes->reach(peer(2));
  CHECK(peers[1].steps.empty());
  // When a link comes up, the count of failures is reset.
  peers[0].lanes->reached(peer(2));
  peers[0].lanes->reach(peer(2));
  REQUIRE(peers.until([&] {
    peers[0].lanes->reach(peer(2));
    return !peers[1].steps.empty();
  }));
}

TEST_CASE("a peer that is asked for through a relay first dials by itself", "[unit]") {
  LinkedPeers peers(3, {1});
  peers.link(0, 1);
  peers.link(1, 2);
  peers[0].relays = {peer(1)};
  peers[2].can_be_dialled = {peer(0)};
  peers[0].lanes->reach(peer(2));
  REQUIRE(peers.until([&] { return peers[2].dialled_directly.contains(peer(0)); }));
  // The direct dial did not help, so the next offer is accepted.
  REQUIRE(peers.until([&] {
    peers[0].lanes->reach(peer(2));
    return peers[2].lanes->relay_of(peer(0)) == peer(1);
  }));
}

TEST_CASE("a relay that cannot reach the other peer refuses and the next is asked", "[unit]") {
  LinkedPeers peers(4, {1, 3});
  peers.link(0, 1);
  peers.link(0, 3);
  peers.link(3, 2);
  peers[0].relays = {peer(1), peer(3)};
  peers.send(0, 2, 1000);
  REQUIRE(peers.until([&] { return peers[2].received == 1000; }));
  CHECK(peers.says_refuse(0));
  CHECK(peers[0].lanes->relay_of(peer(2)) == peer(3));
}

TEST_CASE("without a relay the lane is refused", "[unit]") {
  LinkedPeers peers(2, {});
  peers.send(0, 1, 1000);
  CHECK(peers.until([&] { return peers[0].refused == std::vector{peer(1)}; }));
}

TEST_CASE("a relay passes bytes on at once and does not wait to fill a packet", "[unit]") {
  LinkedPeers peers(3, {1});
  meet_through_the_second(peers);
  const std::string listening = peers[1].lanes->listening();
  const int port = std::stoi(listening.substr(listening.rfind(':') + 1));
  int relayed = 0;
  for (int descriptor = 0; descriptor < 1024; ++descriptor) {
    ::sockaddr_in other{};
    ::socklen_t length = sizeof other;
    if (::getpeername(descriptor, reinterpret_cast<::sockaddr*>(&other), &length) != 0) continue;
    ::sockaddr_in own{};
    length = sizeof own;
    ::getsockname(descriptor, reinterpret_cast<::sockaddr*>(&own), &length);
    if (own.sin_family != AF_INET || ntohs(own.sin_port) != port) continue;
    ++relayed;
    int at_once = 0;
    length = sizeof at_once;
    ::getsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &at_once, &length);
    CHECK(at_once != 0);
  }
  CHECK(relayed == 2);
}

TEST_CASE("a lane comes back when its relay has ended it", "[unit]") {
  LinkedPeers peers(3, {1});
  meet_through_the_second(peers);
  peers[1].lanes->forget(peer(0));
  REQUIRE(peers.until([&] { return count_of<LaneLost>(peers[0].facts) > 0; }));
  REQUIRE(peers.until([&] {
    peers[0].lanes->reach(peer(2));
    return peers[0].lanes->relay_of(peer(2)).has_value() &&
           peers[2].lanes->relay_of(peer(0)).has_value();
  }));
}

TEST_CASE("a relayed lane gives way to a direct one as soon as there is a link", "[unit]") {
  // The third peer listens, but at first no link to it exists.
  LinkedPeers peers(3, {1, 2});
  meet_through_the_second(peers);
  REQUIRE(peers[0].lanes->relay_of(peer(2)) == peer(1));
  peers.link(0, 2);
  peers[0].lanes->prefer_direct(peer(2));
  REQUIRE(peers.until([&] { return !peers[0].lanes->relay_of(peer(2)); }));
  peers.send(0, 2, 2000);
  REQUIRE(peers.until([&] { return peers[2].received == 3000; }));
  CHECK_FALSE(peers[0].lanes->relay_of(peer(2)));
  CHECK_FALSE(peers[2].lanes->relay_of(peer(0)));
  CHECK(peers[0].refused.empty());
}

TEST_CASE("a lane that begins again while other lanes give way does not give way", "[unit]") {
  LinkedPeers peers(4, {1});
  peers.link(1, 3);
  peers[3].relays = {peer(1)};
  meet_through_the_second(peers);
  peers.send(0, 3, 1000);
  REQUIRE(peers.until([&] { return peers[3].received == 1000; }));
  bool is_first = true;
  peers[0].on_lost = [&](PeerId lost) {
    if (!std::exchange(is_first, false)) return;
    const std::size_t other = lost == peer(2) ? 3 : 2;
    peers[0].lanes->forget(peer(other));
    peers.send(0, other, 1000);
  };
  // Both lanes are quiet soon, and then both give way in one turn.
  peers[0].lanes->prefer_direct(peer(2));
  peers[0].lanes->prefer_direct(peer(3));
  CHECK(peers.until([&] { return peers[2].received + peers[3].received == 3000; }));
}

TEST_CASE("a relay is asked again where a direct lane cannot take its place", "[unit]") {
  // The link comes up, but neither of its ends has a port for lanes.
  LinkedPeers peers(3, {1});
  meet_through_the_second(peers);
  peers.link(0, 2);
  peers[0].lanes->prefer_direct(peer(2));
  REQUIRE(peers.until([&] { return !peers[0].lanes->relay_of(peer(2)); }));
  peers.send(0, 2, 1000);
  REQUIRE(peers.until([&] { return peers[0].refused.size() == 1; }));
  peers.send(0, 2, 1000);
  REQUIRE(peers.until([&] { return peers[2].received == 2000; }));
  CHECK(peers[0].lanes->relay_of(peer(2)) == peer(1));
  // From now on the relayed lane stays.
  peers[0].lanes->prefer_direct(peer(2));
  peers.send(0, 2, 1000);
  REQUIRE(peers.until([&] { return peers[2].received == 3000; }));
  CHECK(peers[0].lanes->relay_of(peer(2)) == peer(1));
}

TEST_CASE("peers whose settings differ get no lane through a relay", "[unit]") {
  LinkedPeers peers(3, {1});
  peers.agree("lenet");
  peers.link(0, 1);
  peers.link(1, 2);
  peers[0].relays = {peer(1)};
  peers.send(0, 2, 1000);
  CHECK(peers.until([&] { return !peers[0].refused.empty(); }));
  CHECK_FALSE(has_opened(peers[2]));
}

TEST_CASE("a relay serves a bounded number of pairs for each peer that asks", "[unit]") {
  LinkedPeers peers(12, {1});
  for (std::size_t i = 0; i < 12; ++i) {
    if (i != 1) peers.link(i, 1);
  }
  peers[0].relays = {peer(1)};
  for (std::size_t i = 2; i < 12; ++i) peers[0].lanes->reach(peer(i));
  REQUIRE(peers.until([&] { return peers.says_refuse(0); }));
  const auto offers = std::ranges::count_if(
      peers[0].steps, [](const auto& step) { return step.second.kind == RelayStep::Kind::offer; });
  CHECK(offers <= 8);
}

TEST_CASE("the secret of a pair is equal for both and for no other pair, stream or setting",
          "[unit]") {
  const KeyPair a = generate_key_pair(), b = generate_key_pair(), c = generate_key_pair();
  const auto token = pair_token(a, b.public_key, 1, {{"model", "mlp"}});
  REQUIRE(token);
  CHECK(token == pair_token(b, a.public_key, 1, {{"model", "mlp"}}));
  CHECK(token != pair_token(a, b.public_key, 2, {{"model", "mlp"}}));
  CHECK(token != pair_token(a, c.public_key, 1, {{"model", "mlp"}}));
  CHECK(token != pair_token(a, b.public_key, 1, {{"model", "cnn"}}));
  CHECK(token != pair_token(a, b.public_key, 1, {{"modelmlp", ""}}));
}

TEST_CASE("a byte budget asks for a pause as soon as a second's worth is spent", "[unit]") {
  ByteBudget budget(1000);
  const Time begin{100s};
  CHECK(budget.charge(begin, 1000) == Duration{});
  CHECK(budget.charge(begin, 500) == 500ms);
  CHECK(budget.charge(begin + 500ms, 0) == Duration{});
  // Unused budget is saved for at most a second.
  CHECK(budget.charge(begin + 60s, 2000) == 1s);
}

}  // namespace gv
