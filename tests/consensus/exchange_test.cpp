// The pair exchange: its arithmetic, refusals, losses and laws.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "tests/consensus/exchange_driver.hpp"
#include "tests/consensus/laws.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t width = 100;

PairExchange::Options plain_options() {
  return {.layout_hash = 7, .elements = width, .clip_factor = 0, .norm_cap = 0, .block_least = 1};
}

std::vector<float> random_model(std::uint64_t seed, double scale = 1) {
  Rng rng(seed);
  std::vector<float> model(width);
  for (float& value : model) value = static_cast<float>(scale * rng.normal());
  return model;
}

double norm(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
}

std::int64_t checksum_sum(ExchangeNetwork& network) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < network.size(); ++i) {
    sum += std::accumulate(network.at(i).checksum.begin(), network.at(i).checksum.end(),
                           std::int64_t{0});
  }
  return sum;
}

/// Two peers with random models and conservation checksums.
ExchangeNetwork pair_of_peers(PairExchange::Options options, float alpha = 0.5f) {
  ExchangeNetwork network(2, options);
  network.at(0).checksum = {1, -5, 1000, 7, 0, 3, 99, -12345};
  network.at(1).checksum = {4, 5, -1000, 8, 1, 2, 100, 54321};
  network.load(0, random_model(1), alpha);
  network.load(1, random_model(2), alpha);
  return network;
}

}  // namespace

TEST_CASE("alpha of a half brings both models to the mean of the pair") {
  ExchangeNetwork network = pair_of_peers(plain_options());
  const auto a = network.at(0).model;
  const auto b = network.at(1).model;
  REQUIRE(network.start(0, 1));
  network.deliver();
  for (std::size_t i = 0; i < width; ++i) {
    const double mean = (static_cast<double>(a[i]) + b[i]) / 2;
    // One subtraction and one addition in float lose a few units in the last place of the larger
    // value.
    const double tolerance = 4e-7 * (std::abs(a[i]) + std::abs(b[i]));
    CHECK(std::abs(network.at(0).model[i] - mean) <= tolerance);
    CHECK(std::abs(network.at(1).model[i] - mean) <= tolerance);
  }
}

TEST_CASE(
    "the two forces cancel bit for bit and the conservation checksums keep their sum whatever the "
    "codec") {
  const Codec codec = GENERATE(Codec::identity, Codec::fp16, Codec::bf16);
  const float alpha = GENERATE(0.1f, 0.5f, 1.0f);
  const float radius = GENERATE(0.0f, 3.0f);
  PairExchange::Options options = plain_options();
  options.codec = codec;
  options.clip_radius = radius;
  ExchangeNetwork network = pair_of_peers(options, alpha);
  const std::int64_t before = checksum_sum(network);
  REQUIRE(network.start(1, 0));
  network.deliver();
  REQUIRE(network.at(0).forces.size() == 1);
  REQUIRE(network.at(1).forces.size() == 1);
  const Force& a = network.at(0).forces.front();
  const Force& b = network.at(1).forces.front();
  CHECK(a.scale == b.scale);
  bool opposite = true;
  for (std::size_t i = 0; i < width; ++i) opposite = opposite && (*a.values)[i] == -(*b.values)[i];
  CHECK(opposite);
  CHECK(norm(*a.values) > 1);
  CHECK(checksum_sum(network) == before);
  CHECK(a.checksum != ConservationChecksum{});
  if (radius > 0) {
    CHECK(a.scale * norm(*a.values) <= alpha * radius * (1 + 1e-6));
  } else {
    CHECK(a.scale == alpha);
  }
}

TEST_CASE("the smaller alpha and the smaller radius of the two count") {
  ExchangeNetwork network(2, plain_options());
  network.load(0, random_model(1), 0.5f);
  network.load(1, random_model(2), 0.2f);
  REQUIRE(network.start(0, 1));
  network.deliver();
  CHECK(network.at(0).forces.at(0).scale == 0.2f);
  CHECK(network.at(1).forces.at(0).scale == 0.2f);
}

TEST_CASE("the radius follows the usual distance so one far model is pulled at no harder") {
  PairExchange::Options options = plain_options();
  options.clip_factor = 2;
  ExchangeNetwork network(2, options);
  for (int round = 0; round < 6; ++round) {
    network.load(0, random_model(10 + static_cast<std::uint64_t>(round)));
    network.load(1, random_model(20 + static_cast<std::uint64_t>(round)));
    REQUIRE(network.start(0, 1));
    network.deliver();
    CHECK(network.at(0).forces.back().scale == 0.5f);
  }
  const double usual = norm(*network.at(0).forces.front().values);
  network.load(0, random_model(1));
  network.load(1, random_model(2, 1000));
  REQUIRE(network.start(0, 1));
  network.deliver();
  const Force& last = network.at(0).forces.back();
  CHECK(last.scale * norm(*last.values) < 0.5 * 2 * 1.5 * usual);
}

TEST_CASE("an offer is refused with its reason and nothing happens") {
  PairExchange::Options options = plain_options();
  ExchangeNetwork network = pair_of_peers(options);
  Offer offer{
      .id = {peer(0), 1, 1}, .layout_hash = 7, .elements = width, .alpha = 0.5f, .clip_radius = 0};
  Reason expected = Reason::none;
  SECTION("another layout") {
    offer.layout_hash = 8;
    expected = Reason::unknown_layout;
  }
  SECTION("another number of elements") {
    offer.elements = width + 1;
    expected = Reason::unknown_layout;
  }
  SECTION("another codec") {
    offer.codec = 2;
    expected = Reason::unknown_codec;
  }
  SECTION("no model to answer with") {
    network.at(1).exchange.set_snapshot(nullptr, 0);
    expected = Reason::not_ready;
  }
  SECTION("an id that belongs to a third peer") {
    offer.id.owner = peer(5);
    expected = Reason::stale;
  }
  SECTION("an impossible alpha") {
    offer.alpha = 2;
    expected = Reason::not_finite;
  }
  Reason told = Reason::none;
  network.filter = [&](PeerId, PeerId, const Message& message) {
    if (const auto* refusal = std::get_if<Refuse>(&message)) told = refusal->reason;
    return true;
  };
  network.inject(0, 1, offer);
  network.deliver();
  CHECK(told == expected);
  CHECK(network.at(1).exchange.counts().refusals == 1);
  CHECK_FALSE(network.at(1).exchange.in_flight());
  CHECK(network.at(1).forces.empty());
}

TEST_CASE("a peer in an exchange refuses a third as busy") {
  ExchangeNetwork network(3, plain_options());
  for (std::size_t i = 0; i < 3; ++i) network.load(i, random_model(i));
  network.filter = [](PeerId, PeerId, const Message& message) {
    return !std::holds_alternative<Commit>(message);
  };
  REQUIRE(network.start(0, 1));
  network.deliver();
  REQUIRE(network.at(1).exchange.in_flight());
  REQUIRE(network.start(2, 1));
  network.deliver();
  CHECK(network.at(2).count<ExchangeRefused>(Reason::busy) == 1);
  CHECK(network.at(2).exchange.counts().refused == 1);
}

TEST_CASE("of two crossing offers exactly one exchange comes about") {
  ExchangeNetwork network = pair_of_peers(plain_options());
  REQUIRE(network.start(0, 1));
  REQUIRE(network.start(1, 0));
  network.deliver();
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(network.at(i).forces.size() == 1);
    CHECK_FALSE(network.at(i).exchange.in_flight());
    CHECK(network.at(i).exchange.counts().refused == network.at(i).count<ExchangeRefused>());
  }
}

TEST_CASE("an offer nobody answers yields to another one after a while") {
  ExchangeNetwork network(3, plain_options());
  for (std::size_t i = 0; i < 3; ++i) network.load(i, random_model(i));
  network.at(2).dead = true;
  REQUIRE(network.start(0, 2));
  network.advance(300ms);
  REQUIRE(network.start(1, 0));
  network.deliver();
  CHECK(network.at(0).forces.size() == 1);
  CHECK(network.at(1).forces.size() == 1);
  CHECK(network.at(0).exchange.counts().aborted == 1);
}

TEST_CASE("a lost commit word is asked for and both sides apply once") {
  ExchangeNetwork network = pair_of_peers(plain_options());
  const std::int64_t before = checksum_sum(network);
  int lost = 0;
  network.filter = [&](PeerId, PeerId, const Message& message) {
    return !std::holds_alternative<Commit>(message) || lost++ > 2;
  };
  REQUIRE(network.start(0, 1));
  network.deliver();
  CHECK(network.at(0).forces.size() == 1);
  CHECK(network.at(1).forces.empty());
  network.advance(60s);
  CHECK(network.at(0).forces.size() == 1);
  CHECK(network.at(1).forces.size() == 1);
  CHECK(checksum_sum(network) == before);
}

TEST_CASE("a lost ready word is made good by the question for the commit word") {
  ExchangeNetwork network = pair_of_peers(plain_options());
  network.filter = [](PeerId, PeerId, const Message& message) {
    return !std::holds_alternative<Ready>(message);
  };
  REQUIRE(network.start(0, 1));
  network.advance(6s);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(network.at(i).forces.size() == 1);
    CHECK_FALSE(network.at(i).exchange.in_flight());
  }
}

TEST_CASE("a ready word that was lost with its lane is said again at once") {
  ExchangeNetwork network = pair_of_peers(plain_options());
  int lost = 0;
  network.filter = [&](PeerId, PeerId, const Message& message) {
    return !std::holds_alternative<Ready>(message) || lost++ > 0;
  };
  REQUIRE(network.start(0, 1));
  network.deliver();
  REQUIRE(network.at(1).forces.empty());
  network.break_lane(0, 1);
  network.deliver();
  CHECK(network.at(0).forces.size() == 1);
  CHECK(network.at(1).forces.size() == 1);
}

TEST_CASE("a partner that forgot the exchange ends it when it is asked to go on") {
  ExchangeNetwork network = pair_of_peers(plain_options());
  bool restarted = false;
  network.before_block = [&](std::size_t, std::size_t, std::uint64_t offset) {
    if (offset != 128 || restarted) return;
    restarted = true;
    network.restart(1, plain_options());
    network.break_lane(0, 1);
  };
  REQUIRE(network.start(0, 1));
  network.deliver();
  CHECK_FALSE(network.at(0).exchange.in_flight());
  CHECK(network.at(0).count<ExchangeAborted>(Reason::stale) == 1);
  CHECK(network.at(0).forces.empty());
}

TEST_CASE("a lost ready word and lost questions for it abort the exchange on both sides") {
  ExchangeNetwork network = pair_of_peers(plain_options());
  network.filter = [](PeerId, PeerId, const Message& message) {
    return !std::holds_alternative<Ready>(message) && !std::holds_alternative<Query>(message);
  };
  REQUIRE(network.start(0, 1));
  network.advance(60s);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(network.at(i).forces.empty());
    CHECK_FALSE(network.at(i).exchange.in_flight());
    CHECK(network.at(i).exchange.counts().aborted == 1);
    CHECK(network.at(i).exchange.counts().undecided == 0);
  }
}

TEST_CASE("an initiator that dies before the word leaves an undecided exchange") {
  ExchangeNetwork network = pair_of_peers(plain_options());
  network.filter = [](PeerId, PeerId, const Message& message) {
    return !std::holds_alternative<Commit>(message);
  };
  REQUIRE(network.start(0, 1));
  network.deliver();
  network.kill(0);
  CHECK(network.at(1).exchange.counts().undecided == 1);
  CHECK_FALSE(network.at(1).exchange.in_flight());
}

TEST_CASE("an initiator that dies in the middle of the stream leaves nothing behind") {
  ExchangeNetwork network = pair_of_peers(plain_options());
  network.before_block = [&](std::size_t, std::size_t, std::uint64_t offset) {
    if (offset == 128 && !network.at(0).dead) network.kill(0);
  };
  REQUIRE(network.start(0, 1));
  network.advance(1s);
  CHECK(network.at(1).exchange.counts().aborted == 1);
  CHECK(network.at(1).exchange.counts().undecided == 0);
  CHECK(network.at(1).forces.empty());
}

TEST_CASE("a broken lane goes on where it broke and too many breaks abort both sides") {
  const int breaks = GENERATE(1, 3, 9);
  ExchangeNetwork network = pair_of_peers(plain_options());
  int done = 0;
  network.before_block = [&](std::size_t from, std::size_t to, std::uint64_t offset) {
    if (offset > 0 && done < breaks) {
      ++done;
      network.break_lane(from, to);
    }
  };
  REQUIRE(network.start(0, 1));
  network.advance(120s);
  const bool survives = breaks <= 3;
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK_FALSE(network.at(i).exchange.in_flight());
    CHECK(network.at(i).forces.size() == (survives ? 1u : 0u));
  }
  // Blocks that had arrived were not sent again. One repeated block for each break is allowed,
  // because a block may cross with the news of the break.
  const auto crossed = static_cast<std::uint64_t>(breaks) * 64;
  if (survives) CHECK(network.bytes_delivered <= 2 * width * sizeof(float) + crossed);
}

TEST_CASE("what is asked for on a lane that one end still thinks whole is sent once more") {
  ExchangeNetwork network = pair_of_peers(plain_options());
  bool broken = false;
  network.before_block = [&](std::size_t from, std::size_t to, std::uint64_t offset) {
    if (offset != 128 || broken) return;
    broken = true;
    network.break_lane(from, to, [&] {
      network.deliver_messages();
      network.lose_streams(from, to);
    });
  };
  REQUIRE(network.start(0, 1));
  network.deliver();
  CHECK(network.at(0).forces.size() == 1);
  CHECK(network.at(1).forces.size() == 1);
}

TEST_CASE("a model that is not finite is refused and its sender quarantined after three") {
  ExchangeNetwork network = pair_of_peers(plain_options());
  auto broken = random_model(1);
  broken[57] =
      GENERATE(std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity());
  network.load(0, broken);
  for (int attempt = 0; attempt < 3; ++attempt) {
    REQUIRE(network.start(0, 1));
    network.advance(1s);
  }
  CHECK(network.at(1).count<ModelRefused>(Reason::not_finite) == 3);
  CHECK(network.at(1).count<PeerQuarantined>() == 1);
  CHECK(network.at(1).forces.empty());
  CHECK_FALSE(network.start(1, 0));
  network.at(0).exchange.set_snapshot(nullptr, 0);
  network.load(0, random_model(1));
  REQUIRE(network.start(0, 1));
  network.deliver();
  CHECK(network.at(0).count<ExchangeRefused>(Reason::quarantined) == 1);
  network.advance(301s);
  CHECK(network.start(1, 0));
}

TEST_CASE("a finite model whose difference to ours is not finite is refused") {
  PairExchange::Options options = plain_options();
  options.norm_cap = 0;
  ExchangeNetwork network(2, options);
  auto far = random_model(1);
  auto ours = random_model(2);
  far[57] = std::numeric_limits<float>::max();
  ours[57] = -far[57];
  network.load(0, far);
  network.load(1, ours);
  REQUIRE(network.start(0, 1));
  network.deliver();
  // The first side to receive the other's complete model ends the exchange for both.
  CHECK(network.at(0).count<ModelRefused>(Reason::not_finite) +
            network.at(1).count<ModelRefused>(Reason::not_finite) ==
        1);
  CHECK(network.at(0).forces.empty());
  CHECK(network.at(1).forces.empty());
}

TEST_CASE("a model far larger than ours is refused") {
  PairExchange::Options options = plain_options();
  options.norm_cap = 10;
  ExchangeNetwork network(2, options);
  network.load(0, random_model(1, 200));
  network.load(1, random_model(2));
  REQUIRE(network.start(0, 1));
  network.deliver();
  CHECK(network.at(1).count<ModelRefused>(Reason::norm_exceeded) == 1);
  CHECK(network.at(0).forces.empty());
  CHECK(network.at(1).forces.empty());
}

TEST_CASE("a second exchange before the next snapshot counts no difference twice") {
  ExchangeNetwork network(3, plain_options());
  for (std::size_t i = 0; i < 3; ++i) network.load(i, random_model(i));
  std::vector<double> expected[3];
  for (std::size_t i = 0; i < 3; ++i) {
    expected[i].assign(network.at(i).model.begin(), network.at(i).model.end());
  }
  const auto average = [&](std::size_t a, std::size_t b) {
    for (std::size_t i = 0; i < width; ++i) {
      expected[a][i] = expected[b][i] = (expected[a][i] + expected[b][i]) / 2;
    }
  };
  REQUIRE(network.start(0, 1));
  network.deliver();
  average(0, 1);
  REQUIRE(network.start(2, 0));
  network.deliver();
  average(0, 2);
  for (std::size_t k = 0; k < 3; ++k) {
    for (std::size_t i = 0; i < width; ++i) {
      CHECK(network.at(k).model[i] == Approx(expected[k][i]).margin(1e-5));
    }
  }
}

TEST_CASE("a force that came before the snapshot was taken is added to it once") {
  ExchangeNetwork network = pair_of_peers(plain_options());
  const Force early{.values = std::make_shared<const std::vector<float>>(width, 2.0f),
                    .scale = 0.5f};
  network.at(0).exchange.set_snapshot(
      std::make_shared<const Snapshot>(Snapshot{.values = std::vector<float>(width, 1.0f)}), 0.5f,
      std::vector{early});
  network.load(1, std::vector<float>(width, 0.0f));
  REQUIRE(network.start(0, 1));
  network.deliver();
  // The offered model was 1 + 0.5 * 2 = 2, and the partner's was 0.
  CHECK(network.at(1).model[3] == 1.0f);
}

TEST_CASE("every message twice changes nothing") {
  ExchangeNetwork network = pair_of_peers(plain_options());
  network.repeat_all = true;
  const std::int64_t before = checksum_sum(network);
  for (int round = 0; round < 5; ++round) {
    REQUIRE(network.start(round % 2 == 0 ? 0 : 1, round % 2 == 0 ? 1 : 0));
    network.advance(1s);
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(network.at(i).forces.size() == static_cast<std::size_t>(round) + 1);
    }
  }
  CHECK(checksum_sum(network) == before);
}

TEST_CASE("an offer of an exchange that is over is refused as stale") {
  ExchangeNetwork network = pair_of_peers(plain_options());
  REQUIRE(network.start(0, 1));
  network.deliver();
  Reason told = Reason::none;
  network.filter = [&](PeerId, PeerId, const Message& message) {
    if (const auto* refusal = std::get_if<Refuse>(&message)) told = refusal->reason;
    return true;
  };
  network.inject(
      0, 1, Offer{.id = {peer(0), 100, 1}, .layout_hash = 7, .elements = width, .alpha = 0.5f});
  network.deliver();
  CHECK(told == Reason::stale);
}

TEST_CASE("words about exchanges nobody knows are answered with an abort or not at all") {
  ExchangeNetwork network = pair_of_peers(plain_options());
  const TransferId own{peer(1), 101, 77};
  std::size_t aborts = 0;
  network.filter = [&](PeerId, PeerId, const Message& message) {
    aborts += std::holds_alternative<Abort>(message);
    return true;
  };
  const TransferId theirs{peer(0), 100, 77};
  for (const Message& message :
       {Message(Accept{.id = own}), Message(Ready{own}), Message(Query{own}),
        Message(Resume{own, 0}), Message(Resume{theirs, 0})}) {
    network.inject(0, 1, message);
  }
  for (const Message& message : {Message(Commit{own}), Message(Refuse{own, Reason::busy})}) {
    network.inject(0, 1, message);
  }
  network.deliver();
  CHECK(aborts == 5);
  CHECK(network.at(1).forces.empty());
}

TEST_CASE("under random losses repeats and breaks no force is applied twice and counts add up") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    INFO("seed " << seed);
    Rng rng(seed);
    ExchangeNetwork network(5, plain_options(), 128);
    for (std::size_t i = 0; i < network.size(); ++i) {
      for (auto& lane : network.at(i).checksum) lane = static_cast<std::int64_t>(rng.below(100000));
      network.load(i, random_model(seed * 10 + i));
    }
    const std::int64_t before = checksum_sum(network);
    bool faults = true;
    network.filter = [&](PeerId from, PeerId to, const Message& message) {
      if (faults && rng.chance(0.05)) network.inject(index_of(from), index_of(to), message);
      return !faults || !rng.chance(0.1);
    };
    network.before_block = [&](std::size_t from, std::size_t to, std::uint64_t) {
      if (faults && rng.chance(0.03)) network.break_lane(from, to);
    };
    for (int round = 0; round < 40; ++round) {
      const std::size_t from = rng.below(network.size());
      const std::size_t to = (from + 1 + rng.below(network.size() - 1)) % network.size();
      network.start(from, to);
      network.advance(std::chrono::milliseconds(rng.below(3000)));
      if (rng.chance(0.5)) network.snap(rng.below(network.size()));
    }
    faults = false;
    network.advance(300s);
    std::uint64_t initiators = 0;
    std::uint64_t committed = 0;
    std::uint64_t undecided = 0;
    for (std::size_t i = 0; i < network.size(); ++i) {
      const PairExchange::Counts& counts = network.at(i).exchange.counts();
      CHECK_FALSE(network.at(i).exchange.in_flight());
      CHECK(counts.committed == network.at(i).forces.size());
      initiators += counts.initiated;
      committed += counts.committed;
      undecided += counts.undecided;
    }
    CHECK(initiators > 20);
    CHECK(committed > 0);
    // In a decided exchange each side commits once. In an undecided one the initiator alone may
    // have applied the force.
    if (undecided == 0) {
      CHECK(committed % 2 == 0);
      CHECK(checksum_sum(network) == before);
    }
  }
}

TEST_CASE("the pair exchange obeys the laws of every protocol") {
  struct Machine {
    std::unique_ptr<PairExchange> exchange =
        std::make_unique<PairExchange>(peer(0), 1, plain_options());
    Machine() {
      exchange->set_snapshot(std::make_shared<const Snapshot>(Snapshot{.values = random_model(1)}),
                             0.5f);
    }
    Machine(const Machine&) = delete;
    void tick(Time now, Effects& out) { exchange->tick(now, out); }
    Time deadline() const { return exchange->deadline(); }
  };
  const std::vector<Input<Machine>> script = {
      [](Machine& m, Effects& out) { m.exchange->start(Time{}, peer(1), 0, out); },
      [](Machine& m, Effects& out) {
        m.exchange->receive(Time{}, peer(1), Accept{.id = {peer(0), 1, 1}, .alpha = 0.5f}, out);
      },
      [](Machine& m, Effects& out) {
        m.exchange->receive(
            Time{}, peer(2),
            Offer{.id = {peer(2), 9, 1}, .layout_hash = 7, .elements = width, .alpha = 0.5f}, out);
      },
      [](Machine& m, Effects& out) {
        const auto model = random_model(2);
        m.exchange->receive_block(Time{}, peer(1),
                                  {{peer(0), 1, 1}, 0, std::as_bytes(std::span(model))}, out);
      },
      [](Machine& m, Effects& out) {
        m.exchange->receive(Time{}, peer(1), Ready{{peer(0), 1, 1}}, out);
      },
  };
  CHECK(is_deterministic<Machine>([] { return Machine(); }, script));
  Machine machine;
  CHECK(ticks_settle(machine, script, 700ms));
  // One input makes a peer send at most two messages and one stream.
  Machine bounded;
  for (const auto& input : script) {
    Effects out;
    input(bounded, out);
    CHECK(out.messages.size() <= 2);
    CHECK(out.transfers.size() <= 1);
  }
}

}  // namespace gv
