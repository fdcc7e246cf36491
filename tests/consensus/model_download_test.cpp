// Model downloads: whole, from another peer when the source fails, and never an unsound model.
#include <catch2/catch.hpp>
#include <limits>

#include "tests/consensus/exchange_driver.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t width = 100;

ExchangeNetwork network_of(std::size_t peers) {
  return ExchangeNetwork(peers, {.layout_hash = 7, .elements = width});
}

std::vector<float> constant(float value) { return std::vector<float>(width, value); }

}  // namespace

TEST_CASE("a newcomer downloads the source's model bit for bit") {
  ExchangeNetwork network = network_of(2);
  Rng rng(1);
  std::vector<float> model(width);
  for (float& value : model) value = static_cast<float>(rng.normal());
  network.load(0, model);
  network.want(1, {peer(0)});
  network.deliver();
  REQUIRE(network.at(1).fetched);
  CHECK(network.at(1).fetched->values == model);
  CHECK(network.at(1).fetched->step == 5);
  CHECK(network.at(1).fetched->source == peer(0));
  CHECK_FALSE(network.at(1).fetch.is_waiting());
}

TEST_CASE("when the source dies in the middle the next one takes over from the start") {
  ExchangeNetwork network = network_of(3);
  network.load(0, constant(1));
  network.load(1, constant(2));
  network.before_block = [&](std::size_t from, std::size_t, std::uint64_t offset) {
    if (from == 0 && offset >= 128 && !network.at(0).dead) network.kill(0);
  };
  network.want(2, {peer(0), peer(1)});
  network.advance(5s);
  REQUIRE(network.at(2).fetched);
  CHECK(network.at(2).fetched->values == constant(2));
  CHECK(network.at(2).count<FetchSourceLost>(Reason::peer_gone) == 1);
}

TEST_CASE("a source that stalls or refuses is replaced by the next") {
  ExchangeNetwork network = network_of(3);
  network.load(1, constant(2));
  SECTION("it has no model yet") {}
  SECTION("it says nothing") { network.at(0).dead = true; }
  SECTION("it stops in the middle") {
    network.load(0, constant(1));
    network.before_block = [&](std::size_t from, std::size_t, std::uint64_t offset) {
      if (from == 0 && offset >= 64) network.at(0).dead = true;
    };
  }
  network.want(2, {peer(0), peer(1)});
  network.advance(120s);
  REQUIRE(network.at(2).fetched);
  CHECK(network.at(2).fetched->values == constant(2));
}

TEST_CASE("without any source the download fails after a bounded number of rounds") {
  ExchangeNetwork network = network_of(3);
  network.want(2, {peer(0), peer(1)});
  network.advance(120s);
  CHECK_FALSE(network.at(2).fetched);
  CHECK(network.at(2).fetch.failed());
  CHECK_FALSE(network.at(2).fetch.is_waiting());
  CHECK(network.at(2).count<FetchFailed>() == 1);
  CHECK(network.at(2).fetch.deadline() == never);
}

TEST_CASE("a broken lane goes on at the byte where it broke") {
  ExchangeNetwork network = network_of(2);
  network.load(0, constant(3));
  int breaks = 0;
  network.before_block = [&](std::size_t, std::size_t, std::uint64_t offset) {
    if (offset == 192 && breaks++ == 0) network.break_lane(0, 1);
  };
  network.want(1, {peer(0)});
  network.advance(20s);
  REQUIRE(network.at(1).fetched);
  CHECK(network.at(1).fetched->values == constant(3));
  CHECK(network.bytes_delivered == width * sizeof(float));
}

TEST_CASE("a source that notices later that the lane broke sends once more what it was asked for") {
  ExchangeNetwork network = network_of(2);
  network.load(0, constant(3));
  bool broken = false;
  network.before_block = [&](std::size_t from, std::size_t to, std::uint64_t offset) {
    if (offset != 128 || broken) return;
    broken = true;
    network.break_lane(to, from, [&] {
      network.deliver_messages();
      network.lose_streams(from, to);
    });
  };
  network.want(1, {peer(0)});
  network.deliver();
  REQUIRE(network.at(1).fetched);
  CHECK(network.at(1).fetched->values == constant(3));
}

TEST_CASE("a model that is not finite is not taken") {
  ExchangeNetwork network = network_of(3);
  network.load(0, constant(std::numeric_limits<float>::quiet_NaN()));
  network.load(1, constant(2));
  network.want(2, {peer(0), peer(1)});
  network.advance(10s);
  REQUIRE(network.at(2).fetched);
  CHECK(network.at(2).fetched->values == constant(2));
  CHECK(network.at(2).count<ModelRefused>(Reason::not_finite) == 1);
}

TEST_CASE("no more than four downloads are served at a time") {
  ExchangeNetwork network = network_of(7);
  network.load(0, constant(1));
  std::size_t served_at_once = 0;
  network.before_block = [&](std::size_t, std::size_t, std::uint64_t) {
    served_at_once = std::max(served_at_once, network.at(0).count<ModelServed>());
    network.before_block = nullptr;
  };
  for (std::size_t i = 1; i < 7; ++i) network.want(i, {peer(0)});
  network.deliver();
  CHECK(served_at_once == 4);
  CHECK(network.at(0).count<FetchRefused>(Reason::busy) == 2);
  network.advance(30s);
  for (std::size_t i = 1; i < 7; ++i) CHECK(network.at(i).fetched);
}

TEST_CASE("a model that comes for a download we gave up is called off") {
  ExchangeNetwork network = network_of(2);
  bool called_off = false;
  network.filter = [&](PeerId, PeerId, const Message& message) {
    called_off = called_off || std::holds_alternative<Abort>(message);
    return true;
  };
  network.inject(
      0, 1, TransferAccepted{.id = state_id(peer(1), 101, 9), .layout_hash = 7, .elements = width});
  network.deliver();
  CHECK(called_off);
}

}  // namespace gv
