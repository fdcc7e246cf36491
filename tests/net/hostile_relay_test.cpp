// Relays that read, change, mix up or repeat bytes, and peers that never stop asking for relays.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/ssl.hpp>
#include <asio/write.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/rng.hpp"
#include "net/lane_handshake.hpp"
#include "net/lane_proof.hpp"
#include "net/lane_security.hpp"
#include "net/pair_token.hpp"
#include "net/relay_service.hpp"
#include "tests/net/linked_peers.hpp"

namespace gv {
namespace {

using asio::ip::tcp;

/// A relay that keeps the bytes it passes on and may change them. The test sends the relay's
/// offers.
class HostileRelay {
 public:
  explicit HostileRelay(asio::io_context& io)
      : acceptor_(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0)) {
    accept();
  }

  std::string address() const {
    return "127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port());
  }
  RelayStep offer(PeerId self, PeerId other, std::uint64_t stream) {
    RelayStep step{.kind = RelayStep::Kind::offer,
                   .other = other,
                   .stream = stream,
                   .token = {},
                   .address = address()};
    step.token.fill(static_cast<std::uint8_t>(self));
    tokens_[relay_lane(stream, self, other)] = step.token;
    return step;
  }
  /// From now on the relay proves no connection until pose() is called.
  void withhold() { withholds_ = true; }
  bool was_dialled(std::uint64_t way) const { return end_of(way) != nullptr; }
  bool is_hung_up(std::uint64_t way) const {
    const std::shared_ptr<End> end = end_of(way);
    char next = 0;
    return end && ::recv(end->socket.native_handle(), &next, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
  }
  /// Proves the connection now, and then shows `token` on it as if the relay were the other peer.
  void pose(std::uint64_t way, const LaneToken& token) {
    const std::shared_ptr<End> end = end_of(way);
    answer(*end);
    tls_.emplace([token](std::uint64_t) { return std::optional(token); }, [](const SSL*) {});
    posing_.emplace(end->socket, tls_->context());
    posing_->async_handshake(asio::ssl::stream_base::server, [this](asio::error_code error) {
      is_believed_ = !error && LaneTls::is_mutual(posing_->native_handle());
    });
  }
  /// True if the deceived end has taken the relay for the other peer; empty: not decided yet.
  std::optional<bool> is_believed() const { return is_believed_; }
  /// Flips a bit in every piece after the first `bytes` bytes.
  void spoil_after(std::size_t bytes) { spoiled_from_ = bytes; }
  const std::vector<char>& seen() const { return seen_; }

 private:
  struct End {
    explicit End(tcp::socket s) : socket(std::move(s)) {}
    tcp::socket socket;
    LaneProof proof;
    std::array<char, 4096> bytes;
  };

  void accept() {
    acceptor_.async_accept([this](asio::error_code error, tcp::socket socket) {
      if (error) return;
      ends_.push_back(std::make_shared<End>(std::move(socket)));
      auto end = ends_.back();
      asio::async_read(end->socket, asio::buffer(&end->proof, sizeof end->proof),
                       [this, end](asio::error_code failed, std::size_t) {
                         if (!failed && !withholds_) prove(*end);
                       });
      accept();
    });
  }
  std::shared_ptr<End> end_of(std::uint64_t way) const {
    const auto found =
        std::ranges::find_if(ends_, [way](const auto& end) { return end->proof.lane == way; });
    return found == ends_.end() ? nullptr : *found;
  }
  void answer(End& end) {
    LaneProof proof{.lane = end.proof.lane,
                    .proof = lane_proof(tokens_.at(end.proof.lane), end.proof.lane, false)};
    asio::error_code gone;
    asio::write(end.socket, asio::buffer(&proof, sizeof proof), gone);
  }
  void prove(End& end) {
    answer(end);
    if (++proved_ == 2) {
      pass(ends_[0], ends_[1]);
      pass(ends_[1], ends_[0]);
    }
  }
  void pass(const std::shared_ptr<End>& from, const std::shared_ptr<End>& to) {
    from->socket.async_read_some(
        asio::buffer(from->bytes), [this, from, to](asio::error_code error, std::size_t read) {
          if (error) {
            to->socket.close(error);
            return;
          }
          seen_.insert(seen_.end(), from->bytes.begin(), from->bytes.begin() + read);
          if (seen_.size() > spoiled_from_) from->bytes[read / 2] ^= 1;
          asio::write(to->socket, asio::buffer(from->bytes, read), error);
          pass(from, to);
        });
  }

  tcp::acceptor acceptor_;
  std::map<std::uint64_t, LaneToken> tokens_;
  std::vector<std::shared_ptr<End>> ends_;
  int proved_ = 0;
  bool withholds_ = false;
  std::optional<LaneTls> tls_;
  std::optional<asio::ssl::stream<tcp::socket&>> posing_;
  std::optional<bool> is_believed_;
  std::size_t spoiled_from_ = ~std::size_t{0};
  std::vector<char> seen_;
};

/// Dials a peer and shows a token for a lane. Returns true if the peer believes the token.
bool is_let_in(LinkedPeers& peers, std::size_t at, std::uint64_t lane, const LaneToken& token,
               LaneHandshake::Use use) {
  LaneHandshake hands(
      peers.io(), {.local = false},
      {.accepted = [](const auto&, const ConnectionPtr&) {}, .fact = [](const Fact&) {}});
  hands.expect(lane, token, use);
  std::optional<bool> proved;
  hands.dial({.lane = lane, .token = token, .address = peers[at].lanes->listening()},
             [&](const ConnectionPtr& connection) { proved = connection != nullptr; });
  REQUIRE(peers.until([&] { return proved.has_value(); }));
  return *proved;
}

}  // namespace

TEST_CASE("a hostile relay sees ciphertext and cannot change a byte", "[unit]") {
  LinkedPeers peers(3, {});
  HostileRelay relay(peers.io());
  constexpr std::uint64_t stream = 77;
  peers[0].lanes->receive_relay(peer(1), relay.offer(peer(0), peer(2), stream));
  peers[2].lanes->receive_relay(peer(1), relay.offer(peer(2), peer(0), stream));
  REQUIRE(peers.until([&] { return has_opened(peers[0]) && has_opened(peers[2]); }));
  peers.send(0, 2, 50'000);
  REQUIRE(peers.until([&] { return peers[2].received == 50'000; }));
  // The blocks consist of zeros, while ciphertext hardly ever has two zeros in a row.
  const auto longest_run = [&] {
    std::size_t longest = 0, run = 0;
    for (const char byte : relay.seen()) longest = std::max(longest, run = byte == 0 ? run + 1 : 0);
    return longest;
  };
  CHECK(longest_run() < 64);
  relay.spoil_after(0);
  peers.send(0, 2, 50'000);
  REQUIRE(peers.until([&] { return count_of<LaneLost>(peers[2].facts) > 0; }));
  CHECK(peers[2].received == 50'000);
}

TEST_CASE("a relay that meets two peers as somebody else gets no lane", "[unit]") {
  LinkedPeers peers(3, {});
  HostileRelay relay(peers.io());
  // The two ends are given different partners, so their secrets differ.
  peers[0].lanes->receive_relay(peer(1), relay.offer(peer(0), peer(2), 5));
  peers[2].lanes->receive_relay(peer(0), relay.offer(peer(2), peer(1), 5));
  REQUIRE(peers.until([&] { return !peers[0].refused.empty() || !peers[2].refused.empty(); }));
  CHECK_FALSE(has_opened(peers[0]));
  CHECK_FALSE(has_opened(peers[2]));
}

TEST_CASE("a relay that invites to the number of its offer is not taken for the other peer",
          "[unit]") {
  LinkedPeers peers(3, {0});
  HostileRelay relay(peers.io());
  relay.withhold();
  constexpr std::uint64_t stream = 77;
  const LaneToken own{1, 2, 3};
  const bool offers_first = GENERATE(true, false);
  const auto offer = relay.offer(peer(0), peer(2), stream);
  if (offers_first) peers[0].lanes->receive_relay(peer(1), offer);
  peers[0].lanes->receive_invite(peer(1), {.lane = stream, .token = own});
  if (!offers_first) peers[0].lanes->receive_relay(peer(1), offer);
  const bool is_in = is_let_in(peers, 0, stream, own, LaneHandshake::Use::lane);
  // The number belongs to whichever came first, the invitation or the offer.
  CHECK(is_in == !offers_first);
  if (is_in) REQUIRE(peers.until([&] { return has_opened(peers[0]); }));
  CHECK_FALSE(has_opened(peers[0], peer(2)));
}

TEST_CASE("a relay with two offers of one number is not taken for the other peer", "[unit]") {
  LinkedPeers peers(4, {0});
  HostileRelay relay(peers.io());
  relay.withhold();
  constexpr std::uint64_t stream = 80;
  peers[0].lanes->receive_relay(peer(1), relay.offer(peer(0), peer(2), stream));
  // The second offer's connection to the relay has the same number as the first offer's lane.
  const auto second = relay.offer(peer(0), peer(3), relay_lane(stream, peer(0), peer(3)));
  peers[0].lanes->receive_relay(peer(1), second);
  CHECK_FALSE(is_let_in(peers, 0, stream, second.token, LaneHandshake::Use::relay));
  CHECK_FALSE(has_opened(peers[0]));
}

TEST_CASE("a relay cannot put its own token in the place of a pair's", "[unit]") {
  LinkedPeers peers(4, {});
  HostileRelay relay(peers.io());
  relay.withhold();
  constexpr std::uint64_t stream = 80;
  const std::uint64_t way = relay_lane(stream, peer(1), peer(2));
  peers[1].lanes->receive_relay(peer(3), relay.offer(peer(1), peer(2), stream));
  REQUIRE(peers.until([&] { return relay.was_dialled(way); }));
  const auto second = relay.offer(peer(1), peer(0), relay_lane(stream, peer(1), peer(0)));
  peers[1].lanes->receive_relay(peer(3), second);
  relay.pose(way, second.token);
  REQUIRE(peers.until([&] { return relay.is_believed().has_value(); }));
  CHECK(relay.is_believed() == false);
  CHECK_FALSE(has_opened(peers[1]));
}

TEST_CASE("a relay that connects a peer with itself opens no lane to another", "[unit]") {
  LinkedPeers peers(3, {0});
  HostileRelay relay(peers.io());
  constexpr std::uint64_t stream = 77;
  peers[0].lanes->receive_relay(peer(1), relay.offer(peer(0), peer(2), stream));
  const auto token =
      pair_token(peers[0].keys, peers[2].keys.public_key, stream, {{"model", "mlp"}});
  REQUIRE(token);
  // Sends the bytes that the peer itself would send there, because the relay can return those bytes
  // to the peer.
  is_let_in(peers, 0, stream, *token, LaneHandshake::Use::lane);
  REQUIRE(peers.until(
      [&] { return has_opened(peers[0]) || peers[0].lanes->counters().lanes_refused > 0; }));
  CHECK_FALSE(has_opened(peers[0]));
}

TEST_CASE("a relay is taken for no other peer whatever numbers it draws", "[unit]") {
  const LaneToken own{1, 2, 3};
  LaneToken at_relay;
  at_relay.fill(static_cast<std::uint8_t>(peer(0)));
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    LinkedPeers peers(4, {0});
    HostileRelay relay(peers.io());
    relay.withhold();
    BulkLanes& lanes = *peers[0].lanes;
    for (int step = 0; step < 8; ++step) {
      // There are few numbers, so the same number is used for several things.
      const std::uint64_t number = 80 + rng.below(4);
      switch (rng.below(4)) {
        case 0:
          lanes.receive_relay(peer(1), relay.offer(peer(0), peer(2 + rng.below(2)), number));
          break;
        case 1:
          lanes.receive_invite(peer(1), {.lane = number, .token = own});
          break;
        case 2:
          is_let_in(peers, 0, number, own, LaneHandshake::Use::lane);
          break;
        default:
          is_let_in(peers, 0, number, at_relay, LaneHandshake::Use::relay);
      }
    }
    CHECK_FALSE(has_opened(peers[0], peer(2)));
    CHECK_FALSE(has_opened(peers[0], peer(3)));
  }
}

TEST_CASE("a peer's own invitation is taken in the place of a relay's offer", "[unit]") {
  LinkedPeers peers(3, {2});
  HostileRelay relay(peers.io());
  relay.withhold();
  // This is the smallest possible number, so it takes precedence over the number of any invitation.
  peers[0].lanes->receive_relay(peer(1), relay.offer(peer(0), peer(2), 4));
  peers.link(0, 2);
  peers.send(2, 0, 1000);
  REQUIRE(peers.until([&] { return peers[0].received == 1000 || !peers[2].refused.empty(); }));
  CHECK(peers[0].received == 1000);
  CHECK_FALSE(peers[0].lanes->relay_of(peer(2)));
}

TEST_CASE("nobody needs a relay to a peer with a link", "[unit]") {
  LinkedPeers peers(3, {});
  HostileRelay relay(peers.io());
  peers.link(0, 1);
  peers.link(0, 2);
  const auto offer = relay.offer(peer(0), peer(2), 77);
  peers[0].lanes->receive_relay(peer(1), offer);
  REQUIRE(peers.until([&] { return peers.says_refuse(1) || relay.was_dialled(77 ^ 1); }));
  CHECK(peers.says_refuse(1));
}

TEST_CASE("the offer of a better relay ends the dial of the one before", "[unit]") {
  LinkedPeers peers(4, {});
  HostileRelay relay(peers.io());
  relay.withhold();
  const std::uint64_t way = relay_lane(80, peer(3), peer(2));
  peers[3].lanes->receive_relay(peer(1), relay.offer(peer(3), peer(2), 80));
  REQUIRE(peers.until([&] { return relay.was_dialled(way); }));
  RelayStep nowhere = relay.offer(peer(3), peer(2), 160);
  nowhere.address = "127.0.0.1:1";
  peers[3].lanes->receive_relay(peer(0), nowhere);
  REQUIRE(peers.until([&] { return relay.is_hung_up(way) && !peers[3].refused.empty(); }));
  // Only the second lane has failed, because the first had not reached its deadline.
  CHECK(peers[3].lanes->counters().lanes_refused == 1);
}

namespace {

/// The second peer offers the first peer a lane to peer `other`, through a relay that cannot be
/// dialled.
void offer_nowhere(LinkedPeers& peers, HostileRelay& relay, std::size_t other,
                   std::uint64_t stream) {
  RelayStep nowhere = relay.offer(peer(0), peer(other), stream);
  nowhere.address = "127.0.0.1:1";
  peers[0].lanes->receive_relay(peer(1), nowhere);
}

}  // namespace

TEST_CASE("a relay whose offers led to no lane has to pause with the same two peers", "[unit]") {
  LinkedPeers peers(4, {});
  HostileRelay relay(peers.io());
  peers.link(0, 1);
  std::uint64_t stream = 80;
  REQUIRE(peers.until([&] {
    offer_nowhere(peers, relay, 2, stream += 8);
    return peers.says_refuse(1);
  }));
  while (peers.io().poll() > 0) {
  }
  const std::size_t refusals = peers[1].steps.size();
  // An offer of a lane to another peer is accepted from the same relay.
  peers[0].lanes->receive_relay(peer(1), relay.offer(peer(0), peer(3), 9000));
  CHECK(peers.until([&] { return relay.was_dialled(relay_lane(9000, peer(0), peer(3))); }));
  CHECK(peers[1].steps.size() == refusals);
}

TEST_CASE("a relay whose offers with many peers led to no lane has to pause", "[unit]") {
  LinkedPeers peers(12, {});
  HostileRelay relay(peers.io());
  peers.link(0, 1);
  std::uint64_t stream = 80;
  // After three useless offers for each of eight peers, offers for all eight are refused for four
  // seconds.
  REQUIRE(peers.until([&] {
    for (std::size_t other = 2; other < 10; ++other) {
      offer_nowhere(peers, relay, other, stream += 8);
    }
    // Each round may add eight refusals, and until() runs only one handler between two rounds.
    peers.io().poll();
    return peers[0].lanes->counters().lanes_refused >= 24;
  }));
  const std::size_t refusals = peers[1].steps.size();
  peers[0].lanes->receive_relay(peer(1), relay.offer(peer(0), peer(10), 90000));
  CHECK(peers.until([&] { return peers[1].steps.size() > refusals; }));
  // An offer from another relay is accepted.
  peers[0].lanes->receive_relay(peer(2), relay.offer(peer(0), peer(11), 91000));
  CHECK(peers.until([&] { return relay.was_dialled(relay_lane(91000, peer(0), peer(11))); }));
}

TEST_CASE("an offer that was asked for is followed however many were vain", "[unit]") {
  LinkedPeers peers(4, {});
  HostileRelay relay(peers.io());
  peers.link(0, 1);
  peers[0].relays = {peer(1)};
  peers[0].lanes->reach(peer(2));
  REQUIRE(peers.until([&] { return peers[1].steps.size() == 1; }));
  // The other peer does not answer the relay, which offers the lane again and again.
  std::uint64_t stream = 80;
  CHECK(peers.until([&] {
    offer_nowhere(peers, relay, 2, stream += 8);
    return peers[0].lanes->counters().lanes_refused == 3;
  }));
  CHECK_FALSE(peers.says_refuse(1));
}

TEST_CASE("a relay pauses that was not asked although another was", "[unit]") {
  LinkedPeers peers(4, {});
  HostileRelay relay(peers.io());
  peers.link(0, 1);
  peers.link(0, 3);
  peers[0].relays = {peer(3)};
  peers[0].lanes->reach(peer(2));
  REQUIRE(peers.until([&] { return peers[3].steps.size() == 1; }));
  std::uint64_t stream = 80;
  CHECK(peers.until([&] {
    offer_nowhere(peers, relay, 2, stream += 8);
    return peers.says_refuse(1);
  }));
}

TEST_CASE("a few offers of one relay are followed at once", "[unit]") {
  LinkedPeers peers(22, {});
  HostileRelay relay(peers.io());
  relay.withhold();
  peers.link(0, 1);
  for (std::size_t i = 2; i < 22; ++i) {
    peers[0].lanes->receive_relay(peer(1), relay.offer(peer(0), peer(i), 8 * i));
  }
  REQUIRE(peers.until([&] { return peers.says_refuse(1); }));
  CHECK(peers.until([&] { return peers[1].steps.size() == 4; }));
}

TEST_CASE("a relay makes few offers for a peer that asks without end", "[unit]") {
  LinkedPeers peers(3, {1});
  peers.link(0, 1);
  peers.link(1, 2);
  constexpr std::size_t asks = 200;
  const auto began = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < asks; ++i) {
    peers[1].lanes->receive_relay(peer(0), {.kind = RelayStep::Kind::ask, .other = peer(2)});
  }
  REQUIRE(peers.until([&] { return peers[0].steps.size() == asks; }));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  CHECK(static_cast<double>(peers[2].steps.size()) <= 33 + 4 * took.count());
}

}  // namespace gv
