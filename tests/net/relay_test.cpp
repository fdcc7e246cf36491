// Lanes between peers that cannot reach each other, through a third one, honest or hostile.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "net/bulk_lanes.hpp"
#include "net/lane_proof.hpp"
#include "net/pair_token.hpp"
#include "net/relay_service.hpp"
#include "tests/facts.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;
using asio::ip::tcp;

PeerId peer(std::size_t n) { return PeerId{100 + n}; }

/// Bytes that no cipher would leave as they are.
std::shared_ptr<std::vector<std::byte>> zeros(std::size_t size) {
  return std::make_shared<std::vector<std::byte>>(size);
}

/// Peers with links between some of them, which here are calls through the loop.
class LinkedPeers {
 public:
  struct Side {
    std::unique_ptr<BulkLanes> lanes;
    std::size_t received = 0;  ///< Bytes of blocks.
    std::vector<Message> messages;
    std::vector<Fact> facts;
    std::vector<PeerId> refused;
    std::vector<PeerId> relays;
    std::set<PeerId> dialled_directly;  ///< Peers that asked for a relay and were dialled.
    std::set<PeerId> can_be_dialled;
    std::vector<std::pair<PeerId, RelayStep>> steps;  ///< That arrived here.
    KeyPair keys = generate_key_pair();
  };

  /// Peers of `listening` can be dialled.
  LinkedPeers(std::size_t peers, const std::set<std::size_t>& listening, Duration patience = {})
      : sides_(peers), patience_(patience) {
    char pattern[] = "/tmp/grapevine-relay-XXXXXX";
    folder_ = ::mkdtemp(pattern);
    for (std::size_t i = 0; i < peers; ++i) {
      sides_[i].lanes = std::make_unique<BulkLanes>(
          io_,
          BulkLanes::Options{.listen_host = listening.contains(i) ? "127.0.0.1" : "",
                             .lent = nullptr,
                             .security = BulkLanes::Security::tls,
                             .socket_folder = folder_,
                             .self = peer(i),
                             .relay_patience = patience_},
          callbacks(i));
    }
  }
  ~LinkedPeers() {
    sides_.clear();
    std::filesystem::remove_all(folder_);
  }

  Side& operator[](std::size_t i) { return sides_[i]; }
  asio::io_context& io() { return io_; }
  void link(std::size_t a, std::size_t b) { links_.insert({std::min(a, b), std::max(a, b)}); }
  void agree(std::string value) { agreement_ = std::move(value); }

  template <class Condition>
  bool until(Condition holds) {
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (!holds()) {
      if (std::chrono::steady_clock::now() > end) return false;
      io_.run_one_for(50ms);
    }
    return true;
  }

  void send(std::size_t from, std::size_t to, std::size_t bytes) {
    auto block = zeros(bytes);
    sides_[from].lanes->send(
        {peer(to), TransferId{peer(from), 1, ++sent_}, {block, std::span(*block)}, 0});
  }
  bool says_refuse(std::size_t i) {
    return std::ranges::any_of(sides_[i].steps, [](const auto& step) {
      return step.second.kind == RelayStep::Kind::refuse;
    });
  }

 private:
  std::size_t number(PeerId id) const { return static_cast<std::size_t>(id) - 100; }
  bool is_linked(std::size_t a, PeerId b) const {
    return links_.contains({std::min(a, number(b)), std::max(a, number(b))});
  }

  BulkLanes::Callbacks callbacks(std::size_t i) {
    return {.block = [this, i](PeerId,
                               const Block& block) { sides_[i].received += block.bytes.size(); },
            .place = {},
            .message = [this, i](const Envelope& e) { sides_[i].messages.push_back(e.message); },
            .lost = [](PeerId) {},
            .refused = [this, i](PeerId from) { sides_[i].refused.push_back(from); },
            .fact = [this, i](Fact fact) { sides_[i].facts.push_back(std::move(fact)); },
            .send_invite =
                [this, i](PeerId to, const LaneInvite& invite) {
                  if (!is_linked(i, to)) return false;
                  asio::post(io_, [this, i, to, invite] {
                    sides_[number(to)].lanes->receive_invite(peer(i), invite);
                  });
                  return true;
                },
            .send_relay =
                [this, i](PeerId to, const RelayStep& step) {
                  if (!is_linked(i, to)) return false;
                  asio::post(io_, [this, i, to, step] {
                    sides_[number(to)].steps.emplace_back(peer(i), step);
                    sides_[number(to)].lanes->receive_relay(peer(i), step);
                  });
                  return true;
                },
            .relays = [this, i](PeerId) { return sides_[i].relays; },
            .dial_directly =
                [this, i](PeerId to) {
                  return sides_[i].can_be_dialled.contains(to) &&
                         sides_[i].dialled_directly.insert(to).second;
                },
            .pair_token =
                [this, i](PeerId other, std::uint64_t stream) {
                  return pair_token(sides_[i].keys, sides_[number(other)].keys.public_key, stream,
                                    {{"model", i == 0 ? agreement_ : "mlp"}});
                }};
  }

  std::filesystem::path folder_;
  asio::io_context io_;
  std::vector<Side> sides_;
  Duration patience_;
  std::set<std::pair<std::size_t, std::size_t>> links_;
  std::string agreement_ = "mlp";
  std::uint64_t sent_ = 0;
};

/// A relay that keeps and may change what passes it. Offers are the test's to send.
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
  /// Flips a bit of every piece that passes after the first `bytes`.
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
                         if (!failed) prove(*end);
                       });
      accept();
    });
  }
  void prove(End& end) {
    LaneProof answer{.lane = end.proof.lane,
                     .proof = lane_proof(tokens_.at(end.proof.lane), end.proof.lane, false)};
    asio::write(end.socket, asio::buffer(&answer, sizeof answer));
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
  std::size_t spoiled_from_ = ~std::size_t{0};
  std::vector<char> seen_;
};

bool has_opened(LinkedPeers::Side& side) { return count_of<LaneOpened>(side.facts) > 0; }

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
  // What goes over the relay is no lane of its own.
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
  // A link that comes up ends what was counted.
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
  // That did not help, and the next offer is taken.
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

TEST_CASE("a lane comes back when its relay has ended it", "[unit]") {
  LinkedPeers peers(3, {1});
  peers.link(0, 1);
  peers.link(1, 2);
  peers[0].relays = peers[2].relays = {peer(1)};
  peers.send(0, 2, 1000);
  REQUIRE(peers.until([&] { return peers[2].received == 1000; }));
  peers[1].lanes->forget(peer(0));
  REQUIRE(peers.until([&] { return count_of<LaneLost>(peers[0].facts) > 0; }));
  REQUIRE(peers.until([&] {
    peers[0].lanes->reach(peer(2));
    return peers[0].lanes->relay_of(peer(2)).has_value() &&
           peers[2].lanes->relay_of(peer(0)).has_value();
  }));
}

TEST_CASE("a relayed lane gives way to a direct one as soon as there is a link", "[unit]") {
  // The third peer listens, but at first there is no link to it.
  LinkedPeers peers(3, {1, 2});
  peers.link(0, 1);
  peers.link(1, 2);
  peers[0].relays = peers[2].relays = {peer(1)};
  peers.send(0, 2, 1000);
  REQUIRE(peers.until([&] { return peers[2].received == 1000; }));
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

TEST_CASE("a relay is asked again where a direct lane cannot take its place", "[unit]") {
  // The link comes up, but neither of the two has a port for lanes.
  LinkedPeers peers(3, {1});
  peers.link(0, 1);
  peers.link(1, 2);
  peers[0].relays = peers[2].relays = {peer(1)};
  peers.send(0, 2, 1000);
  REQUIRE(peers.until([&] { return peers[2].received == 1000; }));
  peers.link(0, 2);
  peers[0].lanes->prefer_direct(peer(2));
  REQUIRE(peers.until([&] { return !peers[0].lanes->relay_of(peer(2)); }));
  peers.send(0, 2, 1000);
  REQUIRE(peers.until([&] { return peers[0].refused.size() == 1; }));
  peers.send(0, 2, 1000);
  REQUIRE(peers.until([&] { return peers[2].received == 2000; }));
  CHECK(peers[0].lanes->relay_of(peer(2)) == peer(1));
  // It stays now.
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

TEST_CASE("a hostile relay sees ciphertext and cannot change a byte", "[unit]") {
  LinkedPeers peers(3, {});
  HostileRelay relay(peers.io());
  constexpr std::uint64_t stream = 77;
  peers[0].lanes->receive_relay(peer(1), relay.offer(peer(0), peer(2), stream));
  peers[2].lanes->receive_relay(peer(1), relay.offer(peer(2), peer(0), stream));
  REQUIRE(peers.until([&] { return has_opened(peers[0]) && has_opened(peers[2]); }));
  peers.send(0, 2, 50'000);
  REQUIRE(peers.until([&] { return peers[2].received == 50'000; }));
  // The blocks are zeros, and ciphertext has hardly two of them in a row.
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
  // Each end is told another peer, so their secrets differ.
  peers[0].lanes->receive_relay(peer(1), relay.offer(peer(0), peer(2), 5));
  peers[2].lanes->receive_relay(peer(0), relay.offer(peer(2), peer(1), 5));
  REQUIRE(peers.until([&] { return !peers[0].refused.empty() || !peers[2].refused.empty(); }));
  CHECK_FALSE(has_opened(peers[0]));
  CHECK_FALSE(has_opened(peers[2]));
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
  // What was not used in longer than a second is not saved up.
  CHECK(budget.charge(begin + 60s, 2000) == 1s);
}

}  // namespace gv
