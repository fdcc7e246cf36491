// Control links and lanes through the proxy, when bytes are damaged or do not arrive.
#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <map>
#include <optional>
#include <vector>

#include "net/bulk_lanes.hpp"
#include "net/control_links.hpp"
#include "sim/local/fault_proxy.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;
using asio::ip::tcp;

tcp::endpoint endpoint_of(const std::string& address) {
  const auto colon = address.rfind(':');
  return {asio::ip::make_address(address.substr(0, colon)),
          static_cast<std::uint16_t>(std::stoi(address.substr(colon + 1)))};
}

/// An event loop, and a proxy in front of peer 1 that treats both directions alike.
class World {
 public:
  World()
      : proxy(io,
              {.sources = {{asio::ip::make_address("127.1.0.1"), 0},
                           {asio::ip::make_address("127.1.0.2"), 1}}},
              [this](std::size_t, std::size_t) { return state; }) {}

  /// Starts a proxy for the listener at `address`. Returns the proxy's address.
  std::string front(const std::string& address) {
    const auto port =
        proxy.forward(1, {asio::ip::make_address("127.2.0.2"), 0}, endpoint_of(address));
    return "127.2.0.2:" + std::to_string(port);
  }
  void load_state(LinkState next) {
    state = next;
    proxy.refresh();
  }
  template <class Condition>
  bool until(Condition holds, std::chrono::seconds limit = 20s) {
    const auto give_up = std::chrono::steady_clock::now() + limit;
    while (!holds()) {
      if (std::chrono::steady_clock::now() > give_up) return false;
      io.run_one_for(10ms);
    }
    return true;
  }

  asio::io_context io;
  LinkState state;
  FaultProxy proxy;
};

/// Control links of one peer, with counts of what arrived over them.
struct Side {
  std::optional<ControlLinks> links;
  std::size_t messages = 0;
  std::size_t contacts = 0;
  std::size_t restarts = 0;
};

ControlLinks::Callbacks callbacks(Side& side) {
  return {.message = [&side](const Envelope&) { ++side.messages; },
          .invite = [](PeerId, const LaneInvite&) {},
          .contact = [&side](PeerId) { ++side.contacts; },
          .restarted = [&side](PeerId) { ++side.restarts; },
          .fact = [](const Fact&) {}};
}

ControlLinks::Options options_of(std::size_t number, const KeyPair& own, const KeyPair& other,
                                 std::uint64_t session) {
  const std::string host = "127.1.0." + std::to_string(number + 1);
  return {.identity = own,
          .name = "peer-" + std::to_string(number),
          .authorized = {{.name = "other", .key = other.public_key}},
          .listen = number == 1 ? host + ":0" : "",
          .dial_from = host,
          .session = session};
}

/// Lanes between two peers. The second peer listens behind the proxy.
class LanePair {
 public:
  LanePair() {
    for (std::size_t i = 0; i < 2; ++i) {
      const std::string host = "127.1.0." + std::to_string(i + 1);
      ends[i].lanes.emplace(world.io,
                            BulkLanes::Options{.listen_host = i == 1 ? host : "",
                                               .dial_from = host,
                                               .security = BulkLanes::Security::tls},
                            callbacks(i));
    }
    front_ = world.front(ends[1].lanes->listening());
  }

  static PeerId id(std::size_t i) { return PeerId{100 + i}; }
  /// Sends a thousand bytes.
  void send(std::size_t from) {
    ends[from].lanes->send(
        {id(1 - from), TransferId{id(from), 1, ++number_}, {bytes_, std::span(*bytes_)}, 0});
  }

  struct Lanes {
    std::optional<BulkLanes> lanes;
    std::size_t bytes = 0;
    std::size_t lost = 0;
  };
  World world;
  Lanes ends[2];

 private:
  BulkLanes::Callbacks callbacks(std::size_t i) {
    return {.block = [this, i](PeerId, const Block& block) { ends[i].bytes += block.bytes.size(); },
            .message = [](const Envelope&) {},
            .lost = [this, i](PeerId) { ++ends[i].lost; },
            .refused = [](PeerId) {},
            .fact = [](const Fact&) {},
            .send_invite =
                [this, i](PeerId, LaneInvite invite) {
                  if (!invite.address.empty()) invite.address = front_;
                  asio::post(world.io, [this, i, invite] {
                    ends[1 - i].lanes->receive_invite(id(i), invite);
                  });
                  return true;
                }};
  }

  std::string front_;
  std::shared_ptr<std::vector<std::byte>> bytes_ = std::make_shared<std::vector<std::byte>>(1000);
  std::uint64_t number_ = 0;
};

}  // namespace

TEST_CASE("control links come back after damaged bytes and after a long silence") {
  World world;
  const KeyPair keys[] = {generate_key_pair(), generate_key_pair()};
  Side dialling;
  Side listening;
  listening.links.emplace(world.io, options_of(1, keys[1], keys[0], 11), callbacks(listening));
  dialling.links.emplace(world.io, options_of(0, keys[0], keys[1], 10), callbacks(dialling));
  dialling.links->join(world.front(listening.links->listening()));
  const PeerId there = peer_id(keys[1].public_key);
  const PeerId here = peer_id(keys[0].public_key);
  REQUIRE(world.until([&] { return dialling.contacts == 1 && listening.contacts == 1; }));
  const auto talk = [&] {
    const std::size_t heard = listening.messages;
    const std::size_t answered = dialling.messages;
    return world.until([&] {
      dialling.links->send(there, Ping{});
      listening.links->send(here, Ack{});
      return listening.messages > heard && dialling.messages > answered;
    });
  };
  REQUIRE(talk());
  SECTION("damaged bytes") {
    world.load_state({.quality = {.corrupt = 1}});
    REQUIRE(world.until([&] {
      dialling.links->send(there, Ping{});
      return world.proxy.counters().broken > 0;
    }));
    world.load_state({});
  }
  SECTION("answers that were swallowed") {
    // A cut has the same effect as a damaged length, after which no byte on the connection is
    // understood.
    world.load_state({.cut = true});
    const auto before = world.proxy.counters().connections;
    auto next = std::chrono::steady_clock::now();
    REQUIRE(world.until([&] {
      // Send so few messages that ZeroMQ's queue does not fill, because a full queue would show the
      // fault, too.
      if (std::chrono::steady_clock::now() > next) {
        next += 100ms;
        dialling.links->send(there, Ping{});
      }
      return world.proxy.counters().connections > before;
    }));
    world.load_state({});
  }
  CHECK(talk());
  CHECK(dialling.contacts == 1);
  CHECK(listening.restarts == 0);
}

TEST_CASE("a later life of a peer is told from the one before it") {
  World world;
  const KeyPair keys[] = {generate_key_pair(), generate_key_pair()};
  Side dialling;
  Side listening;
  listening.links.emplace(world.io, options_of(1, keys[1], keys[0], 11), callbacks(listening));
  const std::string front = world.front(listening.links->listening());
  for (const std::uint64_t session : {1u, 2u}) {
    dialling.links.emplace(world.io, options_of(0, keys[0], keys[1], session), callbacks(dialling));
    dialling.links->join(front);
    REQUIRE(world.until([&] { return listening.contacts == session; }));
    dialling.links.reset();
  }
  CHECK(listening.restarts == 1);
}

TEST_CASE("a lane on which nothing comes is given up in doubt and one that works is kept") {
  LanePair pair;
  auto& here = pair.ends[0];
  auto& there = pair.ends[1];
  pair.send(0);
  pair.send(1);
  REQUIRE(pair.world.until([&] { return here.bytes == 1000 && there.bytes == 1000; }));
  here.lanes->doubt(LanePair::id(1), 1s);
  CHECK(here.lost == 0);
  pair.world.load_state({.cut = true});
  REQUIRE(pair.world.until([&] {
    here.lanes->doubt(LanePair::id(1), 1s);
    return here.lost == 1;
  }));
  pair.world.load_state({});
  pair.send(0);
  REQUIRE(pair.world.until([&] { return there.bytes == 2000; }));
  CHECK(here.lanes->counters().lanes_opened == 2);
}

TEST_CASE("a lane that the partner lost first is told to be lost although it is made again") {
  LanePair pair;
  auto& here = pair.ends[0];
  auto& there = pair.ends[1];
  pair.send(0);
  REQUIRE(pair.world.until([&] { return there.bytes == 1000; }));
  // The end of the old connection takes longer to arrive than the invitation to a new one.
  pair.world.load_state({.quality = {.latency = 300ms}});
  there.lanes->forget(LanePair::id(0));
  pair.send(1);
  REQUIRE(pair.world.until([&] { return here.lost == 1; }));
  CHECK(here.bytes == 0);
  REQUIRE(pair.world.until([&] { return here.bytes == 1000; }));
  CHECK(here.lost == 1);
}

}  // namespace gv
