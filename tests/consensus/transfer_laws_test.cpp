// Laws of every call on an exchange or a download, and of the downloaded model.
#include <catch2/catch.hpp>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "tests/consensus/exchange_driver.hpp"
#include "tests/consensus/exchange_models.hpp"
#include "tests/consensus/laws.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

/// An initiator with a model to offer.
struct Exchanging {
  PairExchange exchange{peer(0), 1, plain()};
  Exchanging() {
    exchange.set_snapshot(std::make_shared<const Snapshot>(Snapshot{.values = model_of(1)}), 0.5f);
  }
  Exchanging(const Exchanging&) = delete;
  void tick(Time now, Effects& out) { exchange.tick(now, out); }
  Time deadline() const { return exchange.deadline(); }
};

/// A newcomer that also serves a model.
struct Fetching {
  Downloads fetch{peer(0), 1, {.layout_hash = 7, .elements = width}};
  SnapshotPtr snapshot = std::make_shared<const Snapshot>(Snapshot{.values = model_of(1)});
  Fetching() = default;
  Fetching(const Fetching&) = delete;
  void tick(Time now, Effects& out) { fetch.tick(now, out); }
  Time deadline() const { return fetch.deadline(); }
};

Input<Exchanging> exchange_hears(std::size_t from, Message message) {
  return [=](Exchanging& m, Effects& out) { m.exchange.receive(Time{}, peer(from), message, out); };
}

Input<Fetching> fetch_hears(std::size_t from, Message message) {
  return [=](Fetching& m, Effects& out) {
    m.fetch.receive(Time{}, peer(from), message, m.snapshot, out);
  };
}

Offer sound_offer(std::uint64_t number) {
  return {.id = {peer(1), 9, number}, .layout_hash = 7, .elements = width, .alpha = 0.5f};
}

const TransferId own{peer(0), 1, 1};
const TransferId own_state = state_id(peer(0), 1, 1);

/// Inputs to a peer that first initiates an exchange with peer 1, and then responds to one from
/// peer 1.
std::vector<Input<Exchanging>> exchange_script() {
  const auto block = [](TransferId id) {
    return [id](Exchanging& m, Effects& out) {
      const auto model = model_of(2);
      m.exchange.receive_block(Time{}, peer(1), {id, 0, std::as_bytes(std::span(model))}, out);
    };
  };
  return {[](Exchanging& m, Effects& out) { m.exchange.start(Time{}, peer(1), 0, out); },
          exchange_hears(1, Accept{.id = own, .alpha = 0.5f}),
          exchange_hears(2, Offer{.id = {peer(2), 9, 1}, .layout_hash = 7, .elements = width}),
          block(own),
          exchange_hears(1, Ready{own}),
          exchange_hears(1, Query{own}),
          exchange_hears(1, sound_offer(1)),
          block(sound_offer(1).id),
          exchange_hears(1, Commit{sound_offer(1).id})};
}

/// Inputs to a peer that serves peer 2 and downloads from peer 1.
std::vector<Input<Fetching>> fetch_script() {
  return {[](Fetching& m, Effects& out) { m.fetch.want(Time{}, {peer(1)}, out); },
          fetch_hears(2, StateRequest{.id = state_id(peer(2), 9, 1), .layout_hash = 7}),
          fetch_hears(1, TransferAccepted{.id = own_state, .layout_hash = 7, .elements = width}),
          [](Fetching& m, Effects& out) {
            const auto model = model_of(2);
            m.fetch.receive_block(Time{}, peer(1), {own_state, 0, std::as_bytes(std::span(model))},
                                  out);
          },
          fetch_hears(2, Ready{state_id(peer(2), 9, 1)})};
}

/// The number of transfers that wait after `script` if the lanes have sent nothing.
template <class P>
std::size_t waiting_after(P& machine, const std::vector<Input<P>>& script) {
  std::set<TransferId> waiting;
  for (const Input<P>& input : script) {
    Effects out;
    input(machine, out);
    for (const Transfer& transfer : out.transfers) waiting.insert(transfer.id);
    for (const Cancel& cancel : out.cancels) waiting.erase(cancel.id);
  }
  return waiting.size();
}

}  // namespace

TEST_CASE("an exchange does the same whenever it is told the same") {
  CHECK(is_deterministic<Exchanging>([] { return Exchanging(); }, exchange_script()));
}

TEST_CASE("a download does the same whenever it is told the same") {
  CHECK(is_deterministic<Fetching>([] { return Fetching(); }, fetch_script()));
}

TEST_CASE("after a tick an exchange has nothing left to do at that instant") {
  const Duration step = GENERATE(1ms, 250ms, 2000ms, 9000ms);
  Exchanging machine;
  CHECK(ticks_settle(machine, exchange_script(), step));
}

TEST_CASE("after a tick a download has nothing left to do at that instant") {
  const Duration step = GENERATE(1ms, 250ms, 2000ms, 9000ms, 60000ms);
  Fetching machine;
  CHECK(ticks_settle(machine, fetch_script(), step));
}

TEST_CASE("an exchange that hears everything twice acts once") {
  Exchanging machine;
  const auto script = exchange_script();
  std::vector<bool> repeats(script.size(), true);
  repeats[0] = false;  // The first input is the host's own call.
  CHECK(repeats_with_effect(machine, script, repeats) == 0);
  CHECK(machine.exchange.counts().committed == 2);
}

TEST_CASE("a download that hears everything twice acts once") {
  Fetching machine;
  const auto script = fetch_script();
  std::vector<bool> repeats(script.size(), true);
  repeats[0] = false;  // The first input is the host's own call.
  CHECK(repeats_with_effect(machine, script, repeats) == 0);
  CHECK_FALSE(machine.fetch.is_waiting());
}

TEST_CASE("an exchange answers what is over or another's with the reason stale") {
  Exchanging machine;
  for (const auto& input : exchange_script()) {
    Effects ignored;
    input(machine, ignored);
  }
  CHECK(refusal_of(machine, exchange_hears(1, sound_offer(1))) == Reason::stale);
  CHECK(refusal_of(machine, exchange_hears(2, sound_offer(2))) == Reason::stale);
  CHECK(refusal_of(machine, exchange_hears(1, Query{{peer(0), 1, 50}})) == Reason::stale);
  CHECK(refusal_of(machine, exchange_hears(1, Accept{.id = {peer(0), 1, 50}})) == Reason::stale);
}

TEST_CASE("a download answers what is over or another's with the reason stale") {
  Fetching machine;
  const StateRequest of_another{.id = state_id(peer(2), 9, 1), .layout_hash = 7};
  CHECK(refusal_of(machine, fetch_hears(3, of_another)) == Reason::stale);
  CHECK(refusal_of(machine, fetch_hears(1, TransferAccepted{.id = own_state})) == Reason::stale);
  const StateRequest other_layout{.id = state_id(peer(2), 9, 2), .layout_hash = 8};
  CHECK(refusal_of(machine, fetch_hears(2, other_layout)) == Reason::unknown_layout);
}

TEST_CASE("one call on either protocol sends at most a word and a stream") {
  Exchanging exchanging;
  CHECK(most_sent(exchanging, exchange_script()) == 2);
  Fetching fetching;
  CHECK(most_sent(fetching, fetch_script()) == 2);
}

TEST_CASE("no model waits on a lane once its receiver says that it has the whole of it") {
  Exchanging exchanging;
  CHECK(waiting_after(exchanging, exchange_script()) == 0);
  CHECK(exchanging.exchange.counts().committed == 2);
  Fetching fetching;
  CHECK(waiting_after(fetching, fetch_script()) == 0);
}

TEST_CASE("no model waits on a lane once the time of its download is over") {
  Fetching fetching;
  const StateRequest request{.id = state_id(peer(2), 9, 1), .layout_hash = 7};
  const Input<Fetching> pass = [](Fetching& m, Effects& out) { m.tick(Time(11min), out); };
  CHECK(waiting_after(fetching, {fetch_hears(2, request)}) == 1);
  CHECK(fetching.fetch.server.held() == 1);
  Fetching other;
  CHECK(waiting_after(other, {fetch_hears(2, request), pass}) == 0);
  CHECK(other.fetch.server.held() == 0);
}

TEST_CASE("a downloader told to go elsewhere by a busy source asks the next") {
  ExchangeNetwork network(8, plain());
  network.load(0, model_of(1));
  network.load(1, model_of(2));
  for (std::size_t i = 2; i < 6; ++i) network.want(i, {peer(0)});
  network.want(6, {peer(0), peer(1)});
  network.deliver();
  CHECK(network.at(0).count<FetchRefused>(Reason::busy) == 1);
  REQUIRE(network.at(6).fetched);
  CHECK(network.at(6).fetched->source == peer(1));
  CHECK(network.at(6).fetched->values == model_of(2));
}

TEST_CASE("a source whose lane breaks too often is given up for the next") {
  ExchangeNetwork network(3, plain());
  network.load(0, model_of(1));
  network.load(1, model_of(2));
  network.before_block = [&](std::size_t from, std::size_t to, std::uint64_t offset) {
    if (from == 0 && offset > 0) network.break_lane(from, to);
  };
  network.want(2, {peer(0), peer(1)});
  network.advance(60s);
  REQUIRE(network.at(2).fetched);
  CHECK(network.at(2).fetched->values == model_of(2));
}

TEST_CASE("a download gets the model that was current when it began") {
  ExchangeNetwork network(2, plain());
  network.load(0, model_of(1));
  network.before_block = [&](std::size_t, std::size_t, std::uint64_t offset) {
    if (offset == 64) network.load(0, model_of(9));
    if (offset == 128) network.before_block = nullptr;
  };
  network.want(1, {peer(0)});
  network.deliver();
  REQUIRE(network.at(1).fetched);
  CHECK(network.at(1).fetched->values == model_of(1));
}

}  // namespace gv
