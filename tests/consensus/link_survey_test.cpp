// The order and times of probes, the figures that are measured, and the treatment of unanswered
// probes.
#include "consensus/generation/link_survey.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "consensus/allreduce/all_reduce.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t elements = 1 << 20;
constexpr std::uint64_t key = 77;

PeerId id_of(std::size_t i) { return PeerId{i + 1}; }

std::vector<PeerId> order_of(std::size_t n) {
  std::vector<PeerId> order;
  for (std::size_t i = 0; i < n; ++i) order.push_back(id_of(i));
  return order;
}

Block block_of(const Transfer& transfer) { return {transfer.id, 0, transfer.payload.bytes}; }

const LinkReport* report_to(const std::vector<LinkReport>& reports, PeerId to) {
  const auto found = std::ranges::find(reports, to, &LinkReport::to);
  return found == reports.end() ? nullptr : &*found;
}

/// Peers of one generation. A block takes the link's latency plus the time for its bytes. An answer
/// takes the latency alone.
struct Swarm {
  explicit Swarm(std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      surveys.emplace_back(id_of(i), elements);
      surveys.back().begin(order_of(n), key);
    }
  }

  /// Runs one collective in which every probe is answered.
  void operate(std::uint64_t operation) {
    for (std::size_t i = 0; i < surveys.size(); ++i) {
      Effects out;
      surveys[i].operation_began(now, operation, 0s, out);
      Time at = now;
      while (!out.transfers.empty()) {
        REQUIRE(out.transfers.size() == 1);
        const Transfer transfer = out.transfers.front();
        out = {};
        const auto to = static_cast<std::size_t>(transfer.to) - 1;
        probed.push_back({i, to, operation, transfer.payload.bytes.size()});
        Effects answer;
        surveys[to].receive_block(id_of(i), block_of(transfer), answer);
        REQUIRE(answer.messages.size() == 1);
        REQUIRE(answer.messages.front().to == id_of(i));
        at += 2 * latency + from_seconds(static_cast<double>(transfer.payload.bytes.size()) /
                                         (is_slow(i, to) ? 1e7 : 1e8));
        surveys[i].receive(at, id_of(to), std::get<ProbeAck>(answer.messages.front().message), out);
      }
      CHECK(surveys[i].quiet_until() <= at);
    }
    now += 100ms;
  }

  static bool is_slow(std::size_t from, std::size_t to) { return from == 1 && to == 2; }

  struct Probe {
    std::size_t from, to;
    std::uint64_t operation;
    std::size_t bytes;
  };
  static constexpr Duration latency = 1ms;
  Time now{};
  std::vector<LinkSurvey> surveys;
  std::vector<Probe> probed;
};

}  // namespace

TEST_CASE("in the first operations of a generation every link is measured and then none",
          "[unit]") {
  for (const std::size_t n : {2u, 3u, 4u, 5u, 8u, 65u}) {
    INFO(n << " peers");
    Swarm swarm(n);
    const std::uint64_t operations = LinkSurvey::operations(n);
    CHECK(operations == LinkSurvey::rounds * (n - 1));
    for (std::uint64_t i = 0; i < operations + 10; ++i) swarm.operate(i);
    std::map<std::pair<std::size_t, std::size_t>, int> times;
    std::set<std::pair<std::uint64_t, std::size_t>> targets;
    for (const Swarm::Probe& probe : swarm.probed) {
      CHECK(probe.operation >= 1);
      CHECK(probe.operation <= operations);
      ++times[{probe.from, probe.to}];
      // In each collective a peer receives at most one probe, which is a small block followed by a
      // large one.
      if (probe.bytes < 1000) CHECK(targets.insert({probe.operation, probe.to}).second);
    }
    CHECK(times.size() == n * (n - 1));
    // Every link gets at least two probes, of two blocks each.
    for (const auto& [link, count] : times) CHECK(count >= 4);
    for (std::size_t from = 0; from < n; ++from) {
      const auto reports = swarm.surveys[from].reports();
      CHECK(reports.size() == n - 1);
      for (std::size_t to = 0; to < n; ++to) {
        if (from == to) continue;
        const LinkReport* report = report_to(reports, id_of(to));
        REQUIRE(report != nullptr);
        // The latency includes the time for the small block's 64 bytes, which is 0.06 % of it, or 6
        // % on the slow link.
        CHECK(report->latency_s == Approx(1e-3).epsilon(0.1));
        CHECK(report->bytes_per_second ==
              Approx(Swarm::is_slow(from, to) ? 1e7 : 1e8).epsilon(0.001));
      }
    }
  }
}

TEST_CASE("a large block has what an operation sends but at least 16 KiB and at most 256",
          "[unit]") {
  const auto bytes_of = [](std::size_t size) {
    LinkSurvey survey(id_of(0), size);
    survey.begin(order_of(3), key);
    Effects out;
    survey.operation_began({}, 1, 0s, out);
    survey.receive({}, id_of(1), ProbeAck{out.transfers.at(0).id}, out);
    return out.transfers.at(1).payload.bytes.size();
  };
  CHECK(bytes_of(1) == 16 * 1024);
  CHECK(bytes_of(10000) == 80000);
  CHECK(bytes_of(elements) == block_bytes_usual);
}

TEST_CASE("a sum waits for a probe but not for long", "[unit]") {
  LinkSurvey survey(id_of(0), elements);
  survey.begin(order_of(3), key);
  CHECK(survey.quiet_until() <= Time{});
  Effects out;
  survey.operation_began(Time(1s), 1, 0s, out);
  CHECK(survey.quiet_until() == Time(1s) + LinkSurvey::quiet_max);
  survey.receive(Time(2s), id_of(1), ProbeAck{out.transfers.at(0).id}, out);
  CHECK(survey.quiet_until() == Time(1s) + LinkSurvey::quiet_max);
  survey.receive(Time(3s), id_of(1), ProbeAck{out.transfers.at(1).id}, out);
  CHECK(survey.quiet_until() <= Time{});
  // The survey waits no longer than a collective takes.
  survey.operation_began(Time(4s), 2, 10ms, out);
  CHECK(survey.quiet_until() == Time(4s) + 10ms);
}

TEST_CASE("a probe that is not answered makes place and its link counts as that slow", "[unit]") {
  LinkSurvey survey(id_of(0), elements);
  survey.begin(order_of(3), key);
  Effects out;
  survey.operation_began({}, 1, 0s, out);
  survey.receive(Time(1ms), id_of(1), ProbeAck{out.transfers.at(0).id}, out);
  survey.operation_began(Time(500ms), 2, 0s, out);
  CHECK(out.transfers.size() == 2);
  survey.operation_began(Time(2001ms), 3, 0s, out);
  CHECK(out.transfers.size() == 3);
  const auto reports = survey.reports();
  REQUIRE(report_to(reports, id_of(1)) != nullptr);
  CHECK(report_to(reports, id_of(1))->bytes_per_second ==
        Approx(block_bytes_usual / 1.999).epsilon(0.001));
}

TEST_CASE("a lane that cannot be had is reported as one through which nothing gets", "[unit]") {
  LinkSurvey survey(id_of(0), elements);
  survey.begin(order_of(3), key);
  Effects out;
  survey.operation_began({}, 1, 0s, out);
  survey.lane_refused(id_of(1));
  CHECK(survey.reports() == std::vector{LinkReport{.to = id_of(1)}});
  // A lane that breaks and returns is measured again.
  survey.operation_began({}, 3, 0s, out);
  survey.lane_lost(id_of(1));
  CHECK(report_to(survey.reports(), id_of(1))->bytes_per_second == 0);
  out = {};
  survey.operation_began({}, 5, 0s, out);
  survey.receive(Time(1ms), id_of(1), ProbeAck{out.transfers.at(0).id}, out);
  survey.receive(Time(3ms), id_of(1), ProbeAck{out.transfers.at(1).id}, out);
  CHECK(report_to(survey.reports(), id_of(1))->bytes_per_second ==
        Approx(block_bytes_usual / 1e-3).epsilon(0.001));
}

TEST_CASE("strange answers and probes of other generations change nothing", "[unit]") {
  LinkSurvey survey(id_of(0), elements);
  survey.begin(order_of(3), key);
  Effects out;
  survey.operation_began({}, 1, 0s, out);
  const TransferId id = out.transfers.at(0).id;
  TransferId other = id;
  other.session = key + 1;
  survey.receive(Time(1ms), id_of(2), ProbeAck{id}, out);
  survey.receive(Time(1ms), id_of(1), ProbeAck{other}, out);
  CHECK(survey.reports().empty());
  survey.receive(Time(1ms), id_of(1), ProbeAck{id}, out);
  // The second answer counts for the large block, because that block is expected now.
  survey.receive(Time(2ms), id_of(1), ProbeAck{id}, out);
  CHECK(out.transfers.size() == 2);
  CHECK(out.messages.empty());

  Effects answers;
  const auto bytes = std::make_shared<std::vector<std::byte>>(64);
  const auto receive = [&](PeerId from, const TransferId& named) {
    survey.receive_block(from, {named, 0, *bytes}, answers);
  };
  receive(id_of(1), probe_id(id_of(1), key + 1, 1, false));
  receive(id_of(1), probe_id(id_of(2), key, 1, false));
  receive(id_of(7), probe_id(id_of(7), key, 1, false));
  receive(id_of(1), state_id(id_of(1), key, 0));
  receive(id_of(1), piece_id(id_of(1), key, {}));
  CHECK(answers.messages.empty());
  receive(id_of(1), probe_id(id_of(1), key, 1, false));
  CHECK(answers.messages.size() == 1);
}

TEST_CASE("what was known of peers that are gone is forgotten and of others kept", "[unit]") {
  Swarm swarm(4);
  for (std::uint64_t i = 0; i < 20; ++i) swarm.operate(i);
  LinkSurvey& survey = swarm.surveys[0];
  survey.end();
  CHECK(survey.reports().size() == 3);
  survey.begin({id_of(0), id_of(3)}, key + 1);
  const auto reports = survey.reports();
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].to == id_of(3));
}

}  // namespace gv
