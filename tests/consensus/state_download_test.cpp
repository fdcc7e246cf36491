// Downloads of states are complete, never invalid or mixed, and resume from another peer if the
// source fails.
#include <catch2/catch.hpp>
#include <limits>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "tests/consensus/exchange_driver.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t width = 100;

ExchangeNetwork network_of(std::size_t peers) {
  return ExchangeNetwork(peers, {.layout_hash = 7, .elements = width});
}

std::vector<float> constant(float value) { return std::vector<float>(width, value); }

ModelVersion version_of(std::uint64_t lineage) {
  return {.step = 5, .samples = 80, .lineage = lineage};
}

/// Kills a peer before it sends the block at `offset`.
void kill_at(ExchangeNetwork& network, std::size_t victim, std::uint64_t offset) {
  network.before_block = [&network, victim, offset](std::size_t from, std::size_t,
                                                    std::uint64_t at) {
    if (from == victim && at >= offset && !network.at(victim).dead) network.kill(victim);
  };
}

/// A single download. The test plays its sources.
struct Asking {
  Downloads fetch{peer(0), 1, {.layout_hash = 7, .elements = width}};
  Effects out;

  /// The last request that the download sent.
  StateRequest request() const {
    for (auto sent = out.messages.rbegin(); sent != out.messages.rend(); ++sent) {
      if (const auto* found = std::get_if<StateRequest>(&sent->message)) return *found;
    }
    return {};
  }
  void block(std::size_t from, const std::vector<float>& model, std::uint64_t offset,
             std::size_t bytes) {
    const auto part = std::as_bytes(std::span(model)).subspan(offset, bytes);
    fetch.receive_block(Time{}, peer(from), {request().id, offset, part}, out);
  }
  void accept(std::size_t from, std::uint64_t lineage, std::uint64_t offset) {
    fetch.receive(Time{}, peer(from),
                  TransferAccepted{.id = request().id,
                                   .layout_hash = 7,
                                   .elements = width,
                                   .version = version_of(lineage),
                                   .offset = offset},
                  nullptr, out);
  }
};

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

TEST_CASE("when the source dies a next one with another model takes over from the start") {
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

TEST_CASE("blocks of a source that never said their version are not taken for another version") {
  Asking asking;
  const auto want = [&](std::vector<PeerId> sources) {
    asking.fetch.want(Time{}, std::move(sources), asking.out, version_of(1));
  };
  SECTION("the source dies before it says it") {
    want({peer(1), peer(2)});
    asking.block(1, constant(2), 0, width * sizeof(float));
    asking.fetch.peer_gone(Time{}, peer(1), asking.out);
  }
  SECTION("the download is given up before it says it") {
    want({peer(1)});
    asking.block(1, constant(2), 0, 64);
    asking.fetch.download.stop();
    want({peer(2)});
  }
  CHECK(asking.request().offset == 0);
  asking.accept(2, 1, 0);
  asking.block(2, constant(1), 0, width * sizeof(float));
  const std::optional<DownloadedModel> model = asking.fetch.take_model();
  REQUIRE(model);
  CHECK(model->values == constant(1));
}

TEST_CASE("a source is not asked to go on in a version that its blocks were not of") {
  Asking asking;
  asking.fetch.want(Time{}, {peer(1), peer(2), peer(3)}, asking.out);
  asking.accept(1, 1, 0);  // No block of the download has arrived.
  asking.fetch.peer_gone(Time{}, peer(1), asking.out);
  asking.block(2, constant(2), 0, 64);
  asking.fetch.peer_gone(Time{}, peer(2), asking.out);
  CHECK(asking.request().offset == 0);
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

TEST_CASE("a source with which a download would take very long is replaced but only a few times") {
  constexpr std::size_t size = 1000;
  Downloads fetch(peer(0), 1, {.layout_hash = 7, .elements = size});
  const std::vector<float> model(size, 1);
  Effects out;
  Time now{1s};
  fetch.want(now, {peer(1), peer(2), peer(3), peer(4), peer(5)}, out);
  TransferId last;
  // All sources have the same model, and send each block just in time.
  while (fetch.is_waiting()) {
    const PeerId source = *fetch.download.source();
    const auto& request = std::get<StateRequest>(out.messages.back().message);
    if (request.id != last) {
      last = request.id;
      fetch.receive(now, source,
                    TransferAccepted{.id = last,
                                     .layout_hash = 7,
                                     .elements = size,
                                     .version = version_of(1),
                                     .offset = request.offset},
                    nullptr, out);
    }
    now += 4s;
    const std::uint64_t at = fetch.download.received();
    const auto block = std::as_bytes(std::span(model)).subspan(at, sizeof(float));
    fetch.receive_block(now, source, {last, at, block}, out);
  }
  CHECK(count_of<FetchSourceLost>(out.facts, Reason::timed_out) == 3);
  const std::optional<DownloadedModel> arrived = fetch.take_model();
  REQUIRE(arrived);
  CHECK(arrived->source == peer(4));
  CHECK(arrived->values == model);
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

TEST_CASE("sources that are added are tried after the others and at once in a pause") {
  Asking asking;
  const auto asked = [&] {
    for (auto sent = asking.out.messages.rbegin(); sent != asking.out.messages.rend(); ++sent) {
      if (std::holds_alternative<StateRequest>(sent->message)) return sent->to;
    }
    return PeerId{};
  };
  Time now{};
  asking.fetch.want(now, {peer(1)}, asking.out);
  asking.fetch.download.add(now, {peer(2)}, asking.out);
  CHECK(asked() == peer(1));
  now = asking.fetch.deadline();
  asking.fetch.tick(now, asking.out);
  CHECK(asked() == peer(2));
  now = asking.fetch.deadline();
  asking.fetch.tick(now, asking.out);
  REQUIRE_FALSE(asking.fetch.download.source());  // The download pauses before the next try.
  asking.fetch.download.add(now, {peer(3)}, asking.out);
  CHECK(asked() == peer(3));
  CHECK(asking.fetch.download.held() == 3);
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

TEST_CASE("when the source dies a next one with the same version sends the rest") {
  ExchangeNetwork network = network_of(3);
  Rng rng(2);
  std::vector<float> model(width);
  for (float& value : model) value = static_cast<float>(rng.normal());
  for (const std::size_t source : {0, 1}) {
    network.load(source, model);
    network.at(source).fetch.version = version_of(1);
  }
  kill_at(network, 0, 128);
  network.want(2, {peer(0), peer(1)});
  network.advance(5s);
  REQUIRE(network.at(2).fetched);
  CHECK(network.at(2).fetched->values == model);
  CHECK(network.at(2).fetched->source == peer(1));
  CHECK(network.at(2).count<FetchResumed>() == 1);
  CHECK(network.bytes_delivered == width * sizeof(float));  // No byte was sent twice.
}

TEST_CASE("what came before the acceptance goes on only with the version that is accepted") {
  Asking asking;
  asking.fetch.want(Time{}, {peer(1), peer(2), peer(3)}, asking.out);
  asking.accept(1, 1, 0);
  asking.block(1, constant(1), 0, 128);
  asking.fetch.peer_gone(Time{}, peer(1), asking.out);
  CHECK(asking.request().offset == 128);
  CHECK(asking.request().version == version_of(1));
  SECTION("the same version: the rest counts") {
    asking.block(2, constant(1), 128, 272);
    CHECK_FALSE(asking.fetch.fetched);  // The block does not count before the source has accepted.
    asking.accept(2, 1, 128);
    REQUIRE(asking.fetch.fetched);
    CHECK(asking.fetch.fetched->values == constant(1));
  }
  SECTION("another version that begins at the beginning: only that counts") {
    asking.block(2, constant(2), 0, 400);
    asking.accept(2, 2, 0);
    REQUIRE(asking.fetch.fetched);
    CHECK(asking.fetch.fetched->values == constant(2));
  }
  SECTION("another version behind a part of the first: all is given up") {
    asking.block(2, constant(2), 128, 272);
    asking.accept(2, 2, 128);
    CHECK_FALSE(asking.fetch.fetched);
    CHECK(asking.request().offset == 0);
    asking.accept(3, 3, 0);
    asking.block(3, constant(3), 0, 400);
    REQUIRE(asking.fetch.fetched);
    CHECK(asking.fetch.fetched->values == constant(3));
  }
}

TEST_CASE("a source that accepts at an offset which was not asked for is given up") {
  Asking asking;
  asking.fetch.want(Time{}, {peer(1), peer(2)}, asking.out);
  asking.accept(1, 1, 64);
  CHECK(asking.fetch.download.source() == peer(2));
}

TEST_CASE("where one version is wanted a source that has moved on meanwhile is not used") {
  Asking asking;
  asking.fetch.want(Time{}, {peer(1), peer(2)}, asking.out, version_of(1));
  asking.accept(1, 2, 0);
  CHECK(asking.fetch.download.source() == peer(2));
  asking.accept(2, 1, 0);
  asking.block(2, constant(1), 0, 400);
  REQUIRE(asking.fetch.fetched);
  CHECK(asking.fetch.fetched->values == constant(1));
}

TEST_CASE("a download that was stopped goes on if the same version is wanted again") {
  Asking asking;
  asking.fetch.want(Time{}, {peer(1)}, asking.out, version_of(1));
  asking.accept(1, 1, 0);
  asking.block(1, constant(1), 0, 200);
  asking.fetch.download.stop();
  CHECK_FALSE(asking.fetch.is_waiting());
  SECTION("the same version") {
    asking.fetch.want(Time{}, {peer(2)}, asking.out, version_of(1));
    CHECK(asking.request().offset == 200);
    asking.accept(2, 1, 200);
    asking.block(2, constant(1), 200, 200);
  }
  SECTION("another version") {
    asking.fetch.want(Time{}, {peer(2)}, asking.out, version_of(2));
    CHECK(asking.request().offset == 0);
    asking.accept(2, 2, 0);
    asking.block(2, constant(1), 0, 400);
  }
  REQUIRE(asking.fetch.fetched);
  CHECK(asking.fetch.fetched->values == constant(1));
}

// In every version all values are equal, so a mixture would contain two different values.
TEST_CASE("whatever happens to its sources a download never mixes two versions") {
  std::size_t resumed = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    constexpr std::size_t sources = 6;
    ExchangeNetwork network = network_of(sources + 1);
    Rng rng(seed);
    const auto load = [&](std::size_t source) {
      const std::uint64_t lineage = 1 + rng.below(3);
      network.load(source, constant(static_cast<float>(lineage)));
      network.at(source).fetch.version = version_of(lineage);
    };
    for (std::size_t source = 0; source < sources; ++source) load(source);
    network.before_block = [&](std::size_t from, std::size_t to, std::uint64_t) {
      if (from == sources || network.at(from).dead) return;
      const std::uint64_t fate = rng.below(12);
      if (fate == 0 && from != 0) network.kill(from);
      if (fate == 1) load(from);  // The next peer that asks gets a different version.
      if (fate == 2) network.break_lane(from, to);
      if (fate == 3) network.lose_streams(from, to);
    };
    std::vector<PeerId> order;
    for (std::size_t source = 0; source < sources; ++source) order.push_back(peer(source));
    rng.shuffle(std::span(order));
    network.want(sources, order);
    network.advance(300s);
    resumed += network.at(sources).count<FetchResumed>();
    if (!network.at(sources).fetched) continue;
    const std::vector<float>& values = network.at(sources).fetched->values;
    CHECK(values == constant(values.front()));
  }
  CHECK(resumed > 20);
}

TEST_CASE("a server that has to make a copy first sends it to all that have asked") {
  StateServer server({.layout_hash = 7, .waits = true});
  Effects out;
  const auto request = [](std::size_t from, std::uint64_t offset) {
    return StateRequest{.id = state_id(peer(from), 9, 1),
                        .layout_hash = 7,
                        .version = version_of(1),
                        .offset = offset};
  };
  CHECK(server.ask(Time{}, peer(1), request(1, 0), false, out));
  CHECK_FALSE(server.ask(Time{}, peer(1), request(1, 0), false, out));  // This peer asks again.
  CHECK(server.ask(Time{}, peer(2), request(2, 100), false, out));
  CHECK(server.is_waited_for());
  CHECK(out.messages.empty());
  const auto values = std::make_shared<std::vector<float>>(constant(1));
  CHECK(server.provide(0, {version_of(1), {values, std::as_bytes(std::span(*values))}}, out) == 2);
  CHECK_FALSE(server.is_waited_for());
  REQUIRE(out.transfers.size() == 2);
  CHECK(out.transfers[0].offset == 0);
  CHECK(out.transfers[1].offset == 100);
  // A lost acceptance is sent again, and nothing else is.
  out = {};
  CHECK_FALSE(server.ask(Time{}, peer(2), request(2, 200), false, out));
  CHECK(out.transfers.empty());
  REQUIRE(out.messages.size() == 1);
  CHECK(std::get<TransferAccepted>(out.messages[0].message).offset == 100);
}

TEST_CASE("a download that goes on may take longer than one that does not") {
  StateServer server({.layout_hash = 7});
  Effects out;
  const auto values = std::make_shared<std::vector<float>>(constant(1));
  const StateServer::State state{version_of(1), {values, std::as_bytes(std::span(*values))}};
  const StateRequest request{.id = state_id(peer(1), 9, 1), .layout_hash = 7, .version = {}};
  REQUIRE(server.ask(Time{}, peer(1), request, true, out));
  server.provide(0, state, out);
  const auto resume = [&](Time now, std::uint64_t offset) {
    out = {};
    server.tick(now, out);
    server.receive(now, peer(1), Resume{request.id, offset}, out);
    return out.transfers.size() == 1;
  };
  CHECK(resume(Time(9min), 64));
  CHECK(resume(Time(18min), 128));
  // The peer asks from no higher offset than before. So nothing new has arrived, and the peer gets
  // no more time.
  CHECK(resume(Time(26min), 64));
  CHECK(resume(Time(27min), 128));
  CHECK_FALSE(resume(Time(29min), 128));
  CHECK(server.held() == 0);
  // The server sends an abort, so that the peer need not wait for a timeout.
  REQUIRE(out.messages.size() == 1);
  CHECK(std::get<Abort>(out.messages[0].message).id == request.id);
  // A peer gets no answer about downloads that are not its own.
  out = {};
  server.receive(Time(30min), peer(2), Resume{request.id, 128}, out);
  CHECK(out.messages.empty());
}

TEST_CASE("a large state is served for as long as a slow link needs for it") {
  StateServer server({.layout_hash = 7});
  Effects out;
  // At 125 kB a second the state takes 40 s.
  const auto values = std::make_shared<std::vector<float>>(1'250'000, 1.0f);
  const StateRequest request{.id = state_id(peer(1), 9, 1), .layout_hash = 7, .version = {}};
  REQUIRE(server.ask(Time{}, peer(1), request, true, out));
  server.provide(0, {version_of(1), {values, std::as_bytes(std::span(*values))}}, out);
  CHECK(server.deadline() == Time(10min + 40s));
}

TEST_CASE("a server sends a part of another version from the start") {
  StateServer server({.layout_hash = 7});
  Effects out;
  const StateRequest request{.id = state_id(peer(1), 9, 1),
                             .layout_hash = 7,
                             .version = version_of(1),
                             .offset = GENERATE(std::uint64_t{100}, 402, 1 << 20)};
  REQUIRE(server.ask(Time{}, peer(1), request, true, out));
  const auto values = std::make_shared<std::vector<float>>(constant(2));
  const std::uint64_t lineage = request.offset == 100 ? 2 : 1;
  server.provide(0, {version_of(lineage), {values, std::as_bytes(std::span(*values))}}, out);
  REQUIRE(out.transfers.size() == 1);
  CHECK(out.transfers[0].offset == 0);
}

}  // namespace gv
