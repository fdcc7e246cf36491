// Slow partners, and how long they are left alone.
#include "consensus/gossip/partner_times.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "base/rng.hpp"
#include "tests/consensus/exchange_driver.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

PeerId partner(std::uint64_t number) { return PeerId{number}; }

/// Runs exchanges with partners 1 to `partners`, one after another. Each exchange takes 200 ms.
Time usual_exchanges(PartnerTimes& times, std::uint64_t partners, Time now, int rounds = 2) {
  for (int round = 0; round < rounds; ++round) {
    for (std::uint64_t number = 1; number <= partners; ++number) {
      times.note(now + 200ms, partner(number), now);
      now += 200ms;
    }
  }
  return now;
}

}  // namespace

TEST_CASE("a partner that takes long rests until it has had no more than its share") {
  PartnerTimes times;
  Time now = usual_exchanges(times, 3, Time(1s));
  times.note(now + 900ms, partner(9), now);
  now += 900ms;
  const auto rest = from_seconds(0.9 / PartnerTimes::share - 0.9);
  CHECK(times.is_resting(now, partner(9)));
  CHECK(times.is_resting(now + rest - 1ms, partner(9)));
  CHECK_FALSE(times.is_resting(now + rest + 1ms, partner(9)));
  for (std::uint64_t number = 1; number <= 3; ++number)
    CHECK_FALSE(times.is_resting(now, partner(number)));
  // However slow an exchange was, the partner is at first left alone for a limited time, because
  // its link may have recovered, or we may have been asleep.
  times.note(now + 1h, partner(9), now);
  now += 1h;
  CHECK(times.is_resting(now + PartnerTimes::first_rest_max - 1ms, partner(9)));
  CHECK_FALSE(times.is_resting(now + PartnerTimes::first_rest_max + 1ms, partner(9)));
}

TEST_CASE("a partner that is always slow gets its share of a day or one exchange in an hour") {
  const Duration took = GENERATE(Duration(8s), Duration(80s), Duration(5min));
  constexpr Duration day = 24h;
  PartnerTimes times;
  Time now = usual_exchanges(times, 3, Time(1s));
  const Time end = now + day;
  Duration taken{};
  while (now < end) {
    now = usual_exchanges(times, 3, now, 1);
    if (times.is_resting(now, partner(9))) {
      now += 1s;
      continue;
    }
    times.note(now + took, partner(9), now);
    now += took;
    taken += took;
  }
  const double hourly = seconds(took) * seconds(day) / seconds(PartnerTimes::rest_max);
  const double most = std::max(PartnerTimes::share * seconds(day), hourly);
  CHECK(seconds(taken) <= most + seconds(PartnerTimes::grace + 2 * took));
  // A peer behind a slow link still takes part.
  CHECK(taken >= 20 * took);
}

namespace {

constexpr std::size_t many = 1000;

/// A peer whose exchanges with three others took no time, so that it knows what is usual.
struct Responder {
  PairExchange exchange{peer(0), 100, {.layout_hash = 7, .elements = many, .block_least = 1}};
  std::vector<float> model = std::vector<float>(many, 1);
  Time now{1s};
  Effects out;
  TransferId id;

  Responder() {
    exchange.set_snapshot(std::make_shared<const Snapshot>(Snapshot{.values = model}), 0.5f);
    for (std::size_t other = 2; other <= 4; ++other) {
      offer(other);
      blocks(other, 0, many);
      exchange.receive(now, peer(other), Commit{id}, out);
    }
  }
  void offer(std::size_t from) {
    id = {peer(from), 1, ++id.number};
    exchange.receive(now, peer(from),
                     Offer{.id = id, .layout_hash = 7, .elements = many, .alpha = 0.5f}, out);
  }
  void blocks(std::size_t from, std::size_t begin, std::size_t count) {
    const auto part = std::as_bytes(std::span(model).subspan(begin, count));
    exchange.receive_block(now, peer(from), {id, begin * sizeof(float), part}, out);
  }
  /// The partner sends each block just in time, for as long as the exchange lasts or until `end`.
  void trickle(std::size_t from, Time end) {
    for (std::size_t at = 0; exchange.in_flight() && now < end; ++at) {
      now = std::min(now + 4900ms, exchange.deadline());
      blocks(from, at, 1);
      if (now >= exchange.deadline()) exchange.tick(now, out);
    }
  }
};

}  // namespace

TEST_CASE("an exchange that takes far longer than usual is given up although blocks come in time") {
  Responder own;
  REQUIRE(own.exchange.counts().committed == 3);
  const Time began = own.now;
  own.offer(1);
  own.trickle(1, began + 1h);
  CHECK_FALSE(own.exchange.in_flight());
  CHECK(own.now == began + PartnerTimes::exchange_least);
  CHECK(std::holds_alternative<Abort>(own.out.messages.back().message));
  CHECK(own.exchange.is_resting(own.now, peer(1)));
  CHECK(count_of<ModelRefused>(own.out.facts, Reason::none) == 0);
}

TEST_CASE("a partner that ends a slow exchange itself rests as if it had completed it") {
  Responder own;
  own.offer(1);
  own.trickle(1, own.now + 60s);
  REQUIRE(own.exchange.in_flight());
  own.exchange.receive(own.now, peer(1), Abort{own.id, Reason::timed_out}, own.out);
  CHECK_FALSE(own.exchange.in_flight());
  CHECK(own.exchange.is_resting(own.now, peer(1)));
}

TEST_CASE("nobody rests whose exchanges take what is usual or who is the only partner") {
  PartnerTimes times;
  Time now = usual_exchanges(times, 3, Time(1s));
  times.note(now + 799ms, partner(9), now);
  CHECK_FALSE(times.is_resting(now + 800ms, partner(9)));
  PartnerTimes alone;
  for (int round = 0; round < 20; ++round) {
    now += 10s;
    alone.note(now, partner(1), now - (round % 2 == 0 ? 100ms : 9s));
    CHECK_FALSE(alone.is_resting(now, partner(1)));
  }
  // An exchange shorter than a tenth of a second is never slow, however fast the others are.
  PartnerTimes quick;
  for (int round = 0; round < 9; ++round) quick.note(now + 1ms, partner(1), now);
  quick.note(now + 99ms, partner(2), now);
  CHECK_FALSE(quick.is_resting(now + 99ms, partner(2)));
}

TEST_CASE("where half of the partners are slow only they rest, and what is remembered is bounded") {
  PartnerTimes times;
  Rng rng(5);
  Time now(1s);
  for (int round = 0; round < 2000; ++round) {
    const auto number = rng.below(20);
    if (times.is_resting(now, partner(number))) continue;
    // Peers with odd numbers are behind slow links.
    const Duration took = number % 2 == 1 ? 3s : 150ms;
    times.note(now + took, partner(number), now);
    now += took;
    for (std::uint64_t other = 0; other < 20; other += 2) {
      CHECK_FALSE(times.is_resting(now, partner(other)));
    }
    CHECK(times.held() <= 20 + PartnerTimes::recent_max);
  }
}

TEST_CASE("a partner that lives and never says the word rests, so that it cannot hold us again") {
  constexpr std::size_t width = 32;
  ExchangeNetwork network(
      2, {.layout_hash = 7, .elements = width, .clip_factor = 0, .norm_cap = 0, .block_least = 1});
  for (std::size_t i = 0; i < 2; ++i) network.load(i, std::vector<float>(width, 1));
  network.filter = [](PeerId, PeerId, const Message& message) {
    return !std::holds_alternative<Commit>(message);
  };
  REQUIRE(network.start(0, 1));
  network.advance(60s);
  CHECK(network.at(1).exchange.counts().undecided == 1);
  network.filter = nullptr;
  REQUIRE(network.start(0, 1));
  network.advance(1s);
  CHECK(network.at(0).count<ExchangeRefused>(Reason::resting) == 1);
}

TEST_CASE("a partner that offers and then falls silent rests for as long as that took") {
  constexpr std::size_t width = 32;
  const PairExchange::Options options{.layout_hash = 7, .elements = width, .block_least = 1};
  PairExchange exchange(peer(0), 100, options);
  exchange.set_snapshot(
      std::make_shared<const Snapshot>(Snapshot{.values = std::vector<float>(width, 1)}), 0.5f);
  Effects out;
  Time now{};
  const auto offer = [&](std::uint64_t number) {
    out = {};
    exchange.receive(
        now, peer(1),
        Offer{.id = {peer(1), 1, number}, .layout_hash = 7, .elements = width, .alpha = 0.5f}, out);
    return exchange.in_flight();
  };
  // We know no partner's times yet, so no duration counts as usual.
  REQUIRE(offer(1));
  while (exchange.in_flight()) {
    now = exchange.deadline();
    exchange.tick(now, out);
  }
  const Duration took = now.time_since_epoch();
  CHECK(took >= 4 * options.progress_deadline);
  CHECK(count_of<ExchangeAborted>(out.facts, Reason::timed_out) == 1);
  CHECK_FALSE(offer(2));
  CHECK(count_of<OfferRefused>(out.facts, Reason::resting) == 1);
  now += took - 1ms;
  CHECK_FALSE(offer(3));
  now += 2ms;
  CHECK(offer(4));
}

TEST_CASE("a partner whose ready word does not come rests too") {
  constexpr std::size_t width = 32;
  ExchangeNetwork network(
      2, {.layout_hash = 7, .elements = width, .clip_factor = 0, .norm_cap = 0, .block_least = 1});
  for (std::size_t i = 0; i < 2; ++i) network.load(i, std::vector<float>(width, 1));
  network.filter = [](PeerId, PeerId, const Message& message) {
    return !std::holds_alternative<Ready>(message) && !std::holds_alternative<Query>(message);
  };
  REQUIRE(network.start(0, 1));
  // The wait for Ready takes twice the progress deadline.
  network.advance(11s);
  REQUIRE_FALSE(network.at(0).exchange.in_flight());
  CHECK(network.at(0).exchange.is_resting(network.now(), peer(1)));
}

TEST_CASE("a partner that is silent at first does not prolong the wait for its ready word") {
  constexpr std::size_t width = 32;
  const PairExchange::Options options{.layout_hash = 7, .elements = width, .block_least = 1};
  PairExchange exchange(peer(0), 100, options);
  const auto snapshot =
      std::make_shared<const Snapshot>(Snapshot{.values = std::vector<float>(width, 1)});
  exchange.set_snapshot(snapshot, 0.5f);
  Effects out;
  Time now{};
  REQUIRE(exchange.start(now, peer(1), 0, out));
  const TransferId id = std::get<Offer>(out.messages.at(0).message).id;
  exchange.receive(now, peer(1), Accept{.id = id, .alpha = 0.5f}, out);
  // Either the partner was silent, or our machine was asleep and we have not noticed it yet.
  const int resumes = GENERATE(3, 0);
  for (int resume = 0; resume < resumes; ++resume) {
    now = exchange.deadline();
    exchange.tick(now, out);
  }
  REQUIRE(count_of<ExchangeResumed>(out.facts, Reason::timed_out) ==
          static_cast<std::size_t>(resumes));
  now += resumes > 0 ? Duration(1s) : Duration(60s);
  const std::vector<float> model(width, 2);
  exchange.receive_block(now, peer(1), {.id = id, .bytes = std::as_bytes(std::span(model))}, out);
  CHECK(exchange.deadline() == now + 2 * options.progress_deadline);
}

}  // namespace gv
