// Exchanges whose codes need a memory of the pair: sums are preserved, models converge, and peers
// notice if their memories differ.
#include "consensus/gossip/pair_memories.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/consensus/exchange_driver.hpp"
#include "tests/consensus/exchange_models.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

const Codec tenth{.kind = CodecKind::top_k, .fraction = 0.1};

PairExchange::Options with(const Codec& codec) {
  PairExchange::Options options = plain();
  options.codec = codec;
  return options;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += difference * difference;
  }
  return std::sqrt(sum);
}

/// Runs one exchange that starts from each peer's present model.
void exchange(ExchangeNetwork& network, std::size_t from, std::size_t to, float alpha = 0.5F) {
  network.snap(from, alpha);
  network.snap(to, alpha);
  REQUIRE(network.start(from, to));
  network.deliver();
}

/// Adds random numbers to all values of a peer's model.
void move(ExchangeNetwork& network, std::size_t index, Rng& rng, double by) {
  for (float& value : network.at(index).model) value += static_cast<float>(by * rng.normal());
}

}  // namespace

TEST_CASE("with a memory the sum of both models stays but for one rounding on each side") {
  const Codec codec = GENERATE(values<Codec>({Codec::qsgd8, tenth}));
  const float alpha = GENERATE(0.1F, 0.5F);
  ExchangeNetwork network(2, with(codec));
  network.load(0, model_of(1), alpha);
  network.load(1, model_of(2), alpha);
  Rng rng(5);
  for (int round = 0; round < 20; ++round) {
    move(network, 0, rng, 0.1);
    move(network, 1, rng, 0.1);
    const std::vector<float> a = network.at(0).model;
    const std::vector<float> b = network.at(1).model;
    exchange(network, round % 2, 1 - round % 2, alpha);
    double worst = 0;
    for (std::size_t i = 0; i < width; ++i) {
      const double before = static_cast<double>(a[i]) + static_cast<double>(b[i]);
      const double own = static_cast<double>(network.at(0).model[i]);
      const double other = static_cast<double>(network.at(1).model[i]);
      // Both peers apply the same decoded force, so the sum changes only by the rounding of the
      // additions: by at most half a unit in the last place each.
      const double allowed = 0x1p-24 * (std::abs(own) + std::abs(other));
      worst = std::max(worst, std::abs(own + other - before) - allowed);
    }
    CHECK(worst <= 0);
  }
  CHECK(network.at(0).exchange.counts().committed == 20);
  CHECK(network.at(1).exchange.counts().undecided == 0);
}

TEST_CASE("a pair's largest tenths bring its models together as their bound says") {
  ExchangeNetwork network(2, with(tenth));
  network.load(0, model_of(1));
  network.load(1, model_of(2));
  exchange(network, 0, 1);
  // The first exchange sends complete models, so both peers are at the mean.
  CHECK(distance(network.at(0).model, network.at(1).model) < 1e-5);
  Rng rng(7);
  move(network, 0, rng, 1);
  move(network, 1, rng, 1);
  double before = distance(network.at(0).model, network.at(1).model);
  for (int round = 0; round < 10; ++round) {
    exchange(network, 0, 1);
    // In each exchange a peer sends 6 of its 60 largest differences, so none is left after ten
    // exchanges.
    const double now = distance(network.at(0).model, network.at(1).model);
    CHECK(now < before);
    before = now;
  }
  CHECK(before < 1e-5);
}

TEST_CASE("only the first exchange of a pair sends whole models") {
  ExchangeNetwork network(2, with(tenth));
  network.load(0, model_of(1));
  network.load(1, model_of(2));
  exchange(network, 0, 1);
  const std::uint64_t whole = 2 * (8 + width * sizeof(float));
  CHECK(network.bytes_delivered == whole);
  exchange(network, 1, 0);
  CHECK(network.bytes_delivered == whole + 2 * (8 + encoded_size(tenth, width)));
  CHECK(network.at(0).exchange.counts().committed == 2);
}

TEST_CASE("a code that is longer than the model arrives as well") {
  // A code is longer than the plain values if it adds an index to nearly every value, or if a
  // header or a scale comes with very few values.
  const auto [codec, size] =
      GENERATE(std::pair(Codec{.kind = CodecKind::top_k, .fraction = 1}, width),
               std::pair(Codec{.kind = CodecKind::top_k, .fraction = 0.9}, width),
               std::pair(Codec{.kind = CodecKind::top_k, .fraction = 0.1}, std::size_t{3}),
               std::pair(Codec::qsgd8, std::size_t{1}));
  CHECK(encoded_size(codec, size) > size * sizeof(float));
  PairExchange::Options options = with(codec);
  options.elements = size;
  ExchangeNetwork network(2, options);
  const auto few = [size = size](std::uint64_t seed) {
    std::vector<float> model = model_of(seed);
    model.resize(size);
    return model;
  };
  network.load(0, few(1));
  network.load(1, few(2));
  for (int round = 0; round < 3; ++round) exchange(network, 0, 1);
  CHECK(network.at(0).exchange.counts().committed == 3);
  CHECK(network.at(1).exchange.counts().committed == 3);
}

TEST_CASE("a partner that was started again is met whole after one exchange that fails") {
  ExchangeNetwork network(2, with(Codec::qsgd8));
  network.load(0, model_of(1));
  network.load(1, model_of(2));
  exchange(network, 0, 1);
  network.restart(1, with(Codec::qsgd8));
  const std::vector<float> before = network.at(0).model;
  const std::size_t asks = GENERATE(0U, 1U);
  exchange(network, asks, 1 - asks);
  CHECK(network.at(0).model == before);
  CHECK(network.at(asks).exchange.counts().aborted == 1);
  CHECK(network.at(0).count<ExchangeAborted>(Reason::stale) +
            network.at(1).count<ExchangeAborted>(Reason::stale) ==
        2);
  exchange(network, asks, 1 - asks);
  CHECK(network.at(0).exchange.counts().committed == 2);
  CHECK(distance(network.at(0).model, network.at(1).model) < 1e-5);
}

TEST_CASE("a lost Commit leaves unlike memories which the next exchange finds") {
  ExchangeNetwork network(2, with(tenth));
  network.load(0, model_of(1));
  network.load(1, model_of(2));
  exchange(network, 0, 1);
  network.filter = [](PeerId, PeerId, const Message& message) {
    return !std::holds_alternative<Commit>(message);
  };
  exchange(network, 0, 1);
  // The partner gives up, and is then left alone for at most 45 s.
  network.advance(120s);
  network.filter = nullptr;
  CHECK(network.at(1).exchange.counts().undecided == 1);
  for (int tries = 0; tries < 2; ++tries) exchange(network, 0, 1);
  CHECK(network.at(1).exchange.counts().committed == 2);
  CHECK(distance(network.at(0).model, network.at(1).model) < 1e-5);
}

TEST_CASE("a code goes on where a broken lane has cut it") {
  ExchangeNetwork network(2, with(Codec::qsgd8), 16);
  network.load(0, model_of(1));
  network.load(1, model_of(2));
  exchange(network, 0, 1);
  bool is_cut = false;
  network.before_block = [&](std::size_t, std::size_t, std::uint64_t offset) {
    if (offset < 32 || is_cut) return;
    is_cut = true;
    network.break_lane(0, 1);
  };
  exchange(network, 0, 1);
  network.advance(10s);
  REQUIRE(is_cut);
  CHECK(network.at(0).exchange.counts().committed == 2);
  CHECK(network.at(1).exchange.counts().committed == 2);
}

TEST_CASE("a code that is none offends, and a first block without a key as well") {
  PairExchange mine(peer(0), 1, with(tenth));
  mine.set_snapshot(std::make_shared<const Snapshot>(Snapshot{.values = model_of(1)}), 0.5F);
  const TransferId id{peer(0), 1, 1};
  Effects out;
  REQUIRE(mine.start(Time{}, peer(1), 0, out));
  mine.receive(Time{}, peer(1), Accept{.id = id, .alpha = 0.5F}, out);
  SECTION("values that are not finite") {
    std::vector<std::byte> code(8 + width * sizeof(float), std::byte{0xFF});
    std::fill_n(code.begin(), 8, std::byte{0});
    mine.receive_block(Time{}, peer(1), {id, 0, code}, out);
    CHECK(count_of<ModelRefused>(out.facts, Reason::not_finite) == 1);
  }
  SECTION("a key that we do not know") {
    const std::vector<std::byte> code(8 + encoded_size(tenth, width), std::byte{3});
    mine.receive_block(Time{}, peer(1), {id, 0, code}, out);
    CHECK(count_of<ExchangeAborted>(out.facts, Reason::stale) == 1);
  }
  SECTION("a block from the middle, which is ignored") {
    const std::vector<std::byte> code(8 + width * sizeof(float));
    mine.receive_block(Time{}, peer(1), {id, 8, std::span(code).subspan(8)}, out);
    CHECK(mine.in_flight());
    mine.peer_gone(Time{}, peer(1), out);
  }
  SECTION("less than a key") {
    const std::vector<std::byte> code(7);
    mine.receive_block(Time{}, peer(1), {id, 0, code}, out);
    CHECK(count_of<ExchangeAborted>(out.facts, Reason::bad_length) == 1);
  }
  CHECK_FALSE(mine.in_flight());
  CHECK(mine.take_forces().empty());
}

TEST_CASE("the partner that was not met for the longest time is forgotten first") {
  PairMemories memories;
  for (std::uint64_t i = 0; i < PairMemories::partners_max; ++i) {
    memories.keep(peer(i), {peer(i), 1, 1}, {1});
  }
  memories.keep(peer(0), {peer(0), 1, 2}, {1});
  memories.keep(peer(100), {peer(100), 1, 1}, {1});
  CHECK(memories.held() == PairMemories::partners_max);
  CHECK(memories.key_of(peer(0)) != 0);
  CHECK(memories.key_of(peer(1)) == 0);
  CHECK(memories.key_of(peer(100)) != 0);
}

}  // namespace gv
