// A peer's report on the swarm's budget, the members' parts and leased data.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "peer/modes/swarm_work.hpp"
#include "tests/peer/counting.hpp"

namespace gv {

using namespace std::chrono_literals;

namespace {

/// The figure with that name; -1 if the section lacks it.
double figure_of(const ReportSection& section, std::string_view name) {
  for (const auto& [key, figure] : section.figures) {
    if (key != name) continue;
    if (const auto* count = std::get_if<std::uint64_t>(&figure)) {
      return static_cast<double>(*count);
    }
    return std::get<double>(figure);
  }
  return -1;
}

/// A peer's report on the swarm's work.
struct WorkReport {
  explicit WorkReport(const Counting& swarm) { swarm.work.add_to(swarm.members, report); }

  double total(std::string_view section, std::string_view name) const {
    const auto found = std::ranges::find(report.sections, section, &ReportSection::name);
    return found == report.sections.end() ? -1 : figure_of(*found, name);
  }
  double of(std::uint64_t id, std::string_view name) const {
    const auto found = std::ranges::find(report.members, PeerId{id}, &ReportMember::id);
    return found == report.members.end() ? -1 : figure_of(found->section, name);
  }

  ModeReport report;
};

}  // namespace

TEST_CASE("a report says in words what keeps private data from counting, and what helps",
          "[unit]") {
  Counting swarm({.budget = 1U << 30, .batch = counting_batch, .data = 1000, .all_data = 2000}, 1);
  for (std::uint64_t second = 1; second <= 30; ++second) {
    swarm.now += 1s;
    swarm.work.count(swarm.now, 1);
    swarm.report(PeerId{2}, {.samples = 100 * second, .data = 1000});
  }
  const auto said = [&] {
    std::string lines;
    for (const std::string& line : WorkReport(swarm).report.details) lines += line + '\n';
    return lines;
  };
  CHECK_THAT(said(), Catch::Contains(" would be needed") && Catch::Contains("\"leased\"") &&
                         !Catch::Contains("late"));
  for (int force = 0; force < 100; ++force) swarm.work.force_came(2);
  CHECK_THAT(said(), !Catch::Contains("late"));
  for (int force = 0; force < 100; ++force) swarm.work.force_came(50);
  CHECK_THAT(said(),
             Catch::Contains("forces come 50 steps late") && Catch::Contains("gossip.codec"));
}

TEST_CASE("a report has the totals of the work and a part for each member", "[unit]") {
  Counting swarm({.budget = 10000, .batch = counting_batch, .data = 100, .all_data = 400}, 2);
  // The second peer trained before we heard of it.
  swarm.report(PeerId{2}, {.samples = 50, .data = 100});
  swarm.report(PeerId{3}, {.samples = 0, .data = 200});
  for (std::uint64_t second = 1; second <= 20; ++second) {
    swarm.now += 1s;
    swarm.work.count(swarm.now, 10);
    swarm.report(PeerId{2}, {.samples = 50 + 100 * second, .data = 100});
    swarm.report(PeerId{3}, {.samples = 50 * second, .data = 200});
  }
  const WorkReport report(swarm);
  CHECK(report.total("work", "counted") == 5000);
  CHECK(report.total("work", "passes_done") == 12.5);
  CHECK(report.total("work", "passes") == 25);
  CHECK(report.total("work", "samples_per_second") == Approx(250));
  CHECK(report.total("work", "seconds_left") == Approx(20));
  CHECK(report.total("work", "oldest_report_s") == 0);
  CHECK(report.total("ledger", "chunks") == -1);
  CHECK(report.of(1, "samples") == 2000);
  CHECK(report.of(2, "samples") == 2050);
  CHECK(report.of(3, "samples") == 1000);
  CHECK(report.of(2, "share") == Approx(2050.0 / 5050));
  CHECK(report.of(3, "data") == 200);
  CHECK(report.of(3, "samples_per_second") == Approx(50));
  // Peer 1 has 1/4 of the data and 2/5 of the pace. Peer 3 has 1/2 of the data and 1/5 of the pace.
  CHECK(report.of(1, "factor_wanted") == Approx(0.625));
  CHECK(report.of(3, "factor") == Approx(2.5));
  CHECK(report.of(1, "chunks_done") == -1);

  swarm.now += 3s;
  swarm.report(PeerId{2}, {.samples = 2400, .data = 100});
  CHECK(WorkReport(swarm).total("work", "oldest_report_s") == 3);
  CHECK(WorkReport(swarm).of(3, "report_age_s") == 3);
}

TEST_CASE("a report of leased data has chunks that are done or taken or trained again", "[unit]") {
  Counting swarm({.budget = 1600, .batch = counting_batch, .weigh_max = 1, .chunk_steps = 4}, 1);
  swarm.report(PeerId{2}, {.ledger = LedgerEntry()});
  swarm.now += 10s;
  swarm.work.count(swarm.now, 40);
  const LedgerEntry entry{.whole = 0, .done = {{0, 2}}, .leases = {{{2, 3}, false}}};
  swarm.report(PeerId{2}, {.samples = 80, .ledger = entry});
  const WorkReport report(swarm);
  CHECK(report.total("ledger", "chunks") == 40);
  CHECK(report.total("ledger", "chunk_samples") == 40);
  CHECK(report.total("ledger", "done") == 2);
  CHECK(report.total("ledger", "leased") == 3);
  CHECK(report.total("ledger", "to_do") == 35);
  // The peers trained 400 and 80 samples. Finished and leased chunks account for five times 40 of
  // these samples.
  CHECK(report.total("ledger", "samples_again") == 280);
  CHECK(report.of(2, "chunks_done") == 2);
  CHECK(report.of(2, "leases") == 3);
  CHECK(report.of(1, "leases") == 0);
  CHECK(report.of(1, "factor") == -1);
}

TEST_CASE("a report after a restart counts as trained again only what was", "[unit]") {
  SwarmNote note{.samples = 400, .ledger = LedgerNote{}, .chunk_samples = 40, .budget = 1600};
  note.ledger->whole = 10;
  note.ledger->begun = {{10, 3}};
  Counting swarm(
      {.budget = 1600, .batch = counting_batch, .weigh_max = 1, .chunk_steps = 4, .resumed = note},
      0);
  Ledger& ledger = *swarm.work.ledger();
  const auto again = [&swarm] { return WorkReport(swarm).total("ledger", "samples_again"); };
  REQUIRE(ledger.next(swarm.now, 1)->steps == 1);
  CHECK(again() == 0);
  swarm.work.count(swarm.now += 1s, 1);
  ledger.made(swarm.now, 1, 44);
  ledger.kept(44);
  CHECK(again() == 0);
  CHECK(ledger.done() == 11);
  swarm.work.count(swarm.now += 1s, 4);
  CHECK(again() == 40);
  CHECK(WorkReport(swarm).total("ledger", "restored_samples") == 400);
  CHECK(WorkReport(swarm).total("ledger", "restored_begun_samples") == 30);
}

TEST_CASE("peers that agree on a total show each other's counts and no age of reports", "[unit]") {
  Counting swarm({.budget = 1000, .batch = counting_batch}, 1);
  swarm.report(PeerId{2}, {.samples = 150});
  swarm.work.count(swarm.now += 1s, 5);
  swarm.work.agree_on(swarm.now, 200);
  const WorkReport report(swarm);
  CHECK(report.total("work", "counted") == 200);
  CHECK(report.total("work", "oldest_report_s") == -1);
  CHECK(report.of(1, "share") == 0.25);
  CHECK(report.of(2, "samples") == 150);
  CHECK(report.of(2, "samples_per_second") == -1);
  CHECK(report.of(2, "factor") == -1);
}

TEST_CASE("a peer that ends because the others have ended reports their total", "[unit]") {
  Counting swarm;
  const auto work_of = [&] {
    ModeReport report;
    swarm.work.add_to(swarm.members, report);
    return report;
  };
  swarm.work.count(swarm.now += 1s, 100);
  for (const std::uint64_t id : {2, 3}) {
    swarm.report(PeerId{id}, {.samples = 49000, .counted = 100000}, Phase::done);
  }
  // While this peer trains, it reports the total that it has counted itself.
  CHECK(work_of().columns.front().text == "1.0 %");
  CHECK(work_of().details.front() == "work 1.0 %: 1000 of 100 k samples, 1000/s, about 99 s left");
  swarm.members.set_progress({.phase = Phase::done, .work = swarm.work.own()});
  CHECK(work_of().columns.front().text == "100.0 %");
  CHECK(work_of().details.front().find("s left") == std::string::npos);
  CHECK(std::get<std::uint64_t>(work_of().sections.front().figures[1].second) == 100000);
}

TEST_CASE("large numbers in reports have no exponents", "[unit]") {
  CHECK(plain_number(3000) == "3000");
  CHECK(plain_number(1390.4) == "1390");
  CHECK(plain_number(20000, 4) == "20000");
  CHECK(plain_number(99.96) == "100");
  CHECK(plain_number(0.000012) == "0");
  CHECK(plain_number(1.2345) == "1.23");
  CHECK(short_count(0) == "0");
  CHECK(short_count(9999) == "9999");
  CHECK(short_count(12000000) == "12 M");
  CHECK(short_count(1390000) == "1390 k");
  CHECK(short_count(12345) == "12.35 k");
}

}  // namespace gv
