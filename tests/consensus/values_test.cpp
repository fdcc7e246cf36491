// Protocol objects as values: copies behave like the original, and equal states have equal hashes.
#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "consensus/allreduce/all_reduce.hpp"
#include "consensus/generation/agreement.hpp"
#include "consensus/generation/link_survey.hpp"
#include "consensus/generation/model_audit.hpp"
#include "consensus/gossip/pair_exchange.hpp"
#include "consensus/membership/membership.hpp"
#include "consensus/transfer/state_download.hpp"
#include "consensus/transfer/state_server.hpp"
#include "tests/consensus/value_swarm.hpp"
#include "tests/signers.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t elements = 40;

/// True once every `period` ticks.
bool is_due(Time now, int period) {
  return now.time_since_epoch() % (period * swarm_tick) == Duration{};
}

/// A swarm of the peers that `make(number)` makes.
template <class Make>
auto swarm_of(Make make, std::uint64_t seed, double loss) {
  std::vector<decltype(make(0))> all;
  for (std::uint64_t number = 0; number < swarm_peers; ++number) all.push_back(make(number));
  return ValueSwarm(std::move(all), seed, loss);
}

struct MemberPeer {
  static constexpr std::size_t field_count = 1;
  Membership members;

  void receive(Time now, const Envelope& in, Effects& out) {
    members.receive(now, in.from, in.message, out);
  }
  void advance(Time now, Effects& out) { members.tick(now, out); }
};

/// Plans a generation of all peers that answered.
class EveryPeer : public GenerationPlanner {
 public:
  std::optional<Generation> plan(const Answers& answers, const Generation*) const override {
    Generation start;
    for (const auto& [id, answer] : answers) {
      start.order.push_back(id);
      start.sources.push_back(id);
      start.shares.push_back(1);
      start.version = answer.version;
    }
    return start;
  }
  std::uint64_t samples_max() const override { return 1 << 20; }
  std::string problem(const Generation&) const override { return ""; }
  std::string problem(const Answer&) const override { return ""; }
  std::string problem(const SettingsRevision&) const override { return ""; }
  bool can_begin(const Generation&, PeerId, const Answer&) const override { return true; }
};

struct AgreeingPeer {
  static constexpr std::size_t field_count = 1;
  Agreement agreement;

  void receive(Time now, const Envelope& in, Effects& out) {
    agreement.receive(now, in.from, in.message, EveryPeer(), out);
  }
  void advance(Time now, Effects& out) {
    agreement.tick(now, EveryPeer(), out);
    // The generation ends now and then, so that new ballots are held.
    if (is_due(now, 40)) agreement.disturb(now, {}, out);
  }
};

struct AuditedPeer {
  PeerId self{};
  ModelAudit audit;
  std::uint64_t step = 0;
  std::vector<PeerId> odd;

  void receive(Time, const Envelope& in, Effects&) {
    const Audit& message = std::get<Audit>(in.message);
    note(in.from, message.step, message.fingerprint);
  }
  void advance(Time, Effects& out) {
    ++step;
    const Audit mine{.ballot = {}, .step = step, .fingerprint = step % 7};
    note(self, mine.step, mine.fingerprint);
    for (const PeerId to : swarm_order()) {
      if (to != self) out.send(to, mine);
    }
  }
  void note(PeerId from, std::uint64_t at, std::uint64_t fingerprint) {
    if (const auto found = audit.tell(from, at, fingerprint)) odd = found->odd;
  }
};

struct SurveyingPeer {
  static constexpr std::size_t field_count = 2;
  LinkSurvey survey;
  std::uint64_t operation = 0;

  void receive(Time now, const Envelope& in, Effects& out) {
    survey.receive(now, in.from, std::get<ProbeAck>(in.message), out);
  }
  void receive_block(Time, PeerId from, const Block& block, Effects& out) {
    if (block.offset == 0) survey.receive_block(from, block, out);
  }
  void advance(Time now, Effects& out) {
    if (operation % 15 == 0) survey.begin(swarm_order(), operation + 1);
    survey.operation_began(now, operation++ % 15, {}, out);
  }
};

struct ExchangingPeer {
  static constexpr std::size_t field_count = 3;
  std::uint64_t number = 0;
  PairExchange exchange;
  std::vector<Force> forces;

  void receive(Time now, const Envelope& in, Effects& out) {
    exchange.receive(now, in.from, in.message, out);
  }
  void receive_block(Time now, PeerId from, const Block& block, Effects& out) {
    exchange.receive_block(now, from, block, out);
  }
  void advance(Time now, Effects& out) {
    exchange.tick(now, out);
    forces = exchange.take_forces();
    if (is_due(now, 5 + static_cast<int>(number))) {
      exchange.start(now, swarm_peer((number + 1) % swarm_peers), 0, out);
    }
    if (!is_due(now, 30)) return;
    auto next = exchange.blank_snapshot();
    next->values.assign(elements, static_cast<float>(number) + 0.5f);
    exchange.set_snapshot(std::move(next), 0.5f);
  }
};

struct DownloadingPeer {
  static constexpr std::size_t field_count = 5;
  std::uint64_t number = 0;
  StateDownload download;
  StateServer server;
  std::vector<float> memory = std::vector<float>(elements);
  std::vector<float> own = std::vector<float>(elements, 1);

  void receive(Time now, const Envelope& in, Effects& out) {
    if (const auto* request = std::get_if<StateRequest>(&in.message)) {
      if (server.ask(now, in.from, *request, true, out)) provide(out);
    } else {
      download.receive(now, in.from, in.message, memory, out);
      server.receive(now, in.from, in.message, out);
    }
  }
  void receive_block(Time now, PeerId from, const Block& block, Effects& out) {
    download.receive_block(now, from, block, memory, out);
  }
  void advance(Time now, Effects& out) {
    download.tick(now, out);
    server.tick(now, out);
    if (download.take()) own = memory;
    if (is_due(now, 7 + static_cast<int>(number))) {
      download.want(now, {swarm_peer((number + 1) % swarm_peers)}, {}, out);
    }
  }
  void provide(Effects& out) {
    const auto copy = std::make_shared<const std::vector<float>>(own);
    server.provide(
        0, {.version = {.step = number}, .payload = {copy, std::as_bytes(std::span(*copy))}}, out);
  }
};

struct SummingPeer {
  std::uint64_t number = 0;
  std::uint64_t seed = 0;
  std::optional<AllReduce> sum;
  std::size_t ready = 0;

  void receive_block(Time, PeerId from, const Block& block, Effects& out) {
    if (sum) sum->receive(from, block, out);
  }
  void advance(Time now, Effects& out) {
    if (is_due(now, 30)) begin(static_cast<std::uint64_t>(now.time_since_epoch() / swarm_tick));
    if (sum && ready < 2 && is_due(now, 1 + static_cast<int>(number))) sum->ready(ready++, out);
  }
  void begin(std::uint64_t operation) {
    const AllReduceShape shape{.order = swarm_order(),
                               .generation = seed,
                               .buckets = {{0, elements / 2}, {elements / 2, elements}},
                               .segment = 8};
    const auto value = static_cast<float>(number + operation);
    sum.emplace(shape, swarm_peer(number), operation, 0.25f,
                std::make_shared<Floats>(elements, value), std::make_shared<Floats>(elements, 0));
    ready = 0;
  }
};

}  // namespace

TEST_CASE("a membership is a value whose hash tells its states apart", "[unit]") {
  check_values([](std::uint64_t seed) {
    return swarm_of(
        [&](std::uint64_t number) {
          Member self{.id = swarm_peer(number), .name = "peer", .address = "here:1"};
          Membership members(self, swarm_order(), {}, signer_of(self.id), Rng(seed + number));
          Effects ignored;
          for (const PeerId other : swarm_order()) members.contact(Time{}, other, ignored);
          return MemberPeer{std::move(members)};
        },
        seed, 0.2);
  });
}

TEST_CASE("an agreement is a value whose hash tells its states apart", "[unit]") {
  check_values([](std::uint64_t seed) {
    return swarm_of(
        [&](std::uint64_t number) {
          Agreement agreement(swarm_peer(number), seed + number + 1, {},
                              signer_of(swarm_peer(number)));
          agreement.set_candidates(Time{}, swarm_order());
          Effects ignored;
          agreement.disturb(Time{}, {}, ignored);
          return AgreeingPeer{std::move(agreement)};
        },
        seed, 0.2);
  });
}

TEST_CASE("an audit of models is a value whose hash tells its states apart", "[unit]") {
  check_values([](std::uint64_t seed) {
    return swarm_of(
        [&](std::uint64_t number) {
          AuditedPeer peer{.self = swarm_peer(number)};
          peer.audit.begin(swarm_order());
          return peer;
        },
        seed, 0.1);
  });
}

TEST_CASE("a survey of links is a value whose hash tells its states apart", "[unit]") {
  check_values([](std::uint64_t seed) {
    return swarm_of(
        [](std::uint64_t number) {
          return SurveyingPeer{LinkSurvey(swarm_peer(number), elements)};
        },
        seed, 0.1);
  });
}

TEST_CASE("a pair exchange is a value whose hash tells its states apart", "[unit]") {
  check_values([](std::uint64_t seed) {
    return swarm_of(
        [&](std::uint64_t number) {
          PairExchange exchange(
              swarm_peer(number), seed,
              {.elements = elements, .progress_deadline = 200ms, .block_least = 1});
          exchange.set_snapshot(
              std::make_shared<const Snapshot>(
                  Snapshot{.values = std::vector<float>(elements, static_cast<float>(number))}),
              0.5f);
          return ExchangingPeer{number, std::move(exchange), {}};
        },
        seed, 0.02);
  });
}

TEST_CASE("both sides of a download are values whose hashes tell their states apart", "[unit]") {
  check_values([](std::uint64_t seed) {
    return swarm_of(
        [&](std::uint64_t number) {
          return DownloadingPeer{
              number,
              StateDownload(swarm_peer(number), seed,
                            {.elements = elements, .progress_deadline = 200ms, .block_least = 1}),
              StateServer({})};
        },
        seed, 0.05);
  });
}

TEST_CASE("an all-reduce is a value whose hash tells its states apart", "[unit]") {
  check_values([](std::uint64_t seed) {
    return swarm_of(
        [&](std::uint64_t number) {
          return SummingPeer{number, seed, {}, 0};
        },
        seed, 0);
  });
}

}  // namespace gv
