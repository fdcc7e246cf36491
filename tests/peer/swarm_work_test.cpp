// The swarm's budget: what a peer counts, believes and reports, and how it weighs its updates.
#include "peer/modes/swarm_work.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "consensus/membership/statement.hpp"
#include "peer/node/swarm_note.hpp"
#include "tests/signers.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

constexpr PeerId self{1};
constexpr std::uint64_t batch = 10;

/// One peer that counts the work, and the reports of other peers.
struct Counting {
  explicit Counting(SwarmWorkOptions options = {.budget = 100000, .batch = batch},
                    std::size_t others = 3)
      : work(self, options),
        members({.id = self, .name = "us", .address = "virtual:0", .layout_hash = 3},
                roster(others), {}, signer_of(self), Rng(1)) {
    work.begin(now);
  }

  static std::vector<PeerId> roster(std::size_t others) {
    std::vector<PeerId> all;
    for (std::uint64_t id = 1; id <= others + 1; ++id) all.push_back(PeerId{id});
    return all;
  }

  /// The peer reports its work over its own link.
  void report(PeerId peer, const WorkDone& told, Phase phase = Phase::training) {
    Effects out;
    Member member{.id = peer,
                  .name = "peer",
                  .address = "virtual:1",
                  .incarnation = incarnation,
                  .layout_hash = 3,
                  .progress = {.step = ++steps, .phase = phase, .work = told}};
    restate(member, signer_of(peer));
    members.receive(now, peer, Ping{1, member.progress, {member}, 0}, out);
    work.hear(now, members);
  }

  /// Lets time pass in which no peer reports.
  void hear_nobody() {
    Effects out;
    members.tick(now, out);
    work.hear(now, members);
  }

  SwarmWork work;
  Membership members;
  std::uint64_t incarnation = 0;  ///< Sent in all reports. A higher one revives dead peers.
  Time now{};
  std::uint64_t steps = 0;
};

}  // namespace

TEST_CASE("a batch that grows makes the updates of Smith's first experiment", "[unit]") {
  // 50,000 samples in batches of 128. A factor of 5 applies after 60, 120 and 160 of 200 epochs.
  // That makes 78,000 updates if the learning rate falls, and 28,800 if the batch grows (Smith 2018
  // says 80,000 and 29,000).
  constexpr std::uint64_t epoch = 50000;
  const BatchGrowth growth{.at = {60 * epoch, 120 * epoch, 160 * epoch}, .factor = 5};
  std::uint64_t updates = 0;
  for (std::uint64_t samples = 0; samples < 200 * epoch; ++updates) {
    samples += 128 * growth.after(samples);
  }
  // These are 60 + 60 / 5 + 40 / 25 + 40 / 125 epochs of 390.6 updates.
  CHECK(updates == 28876);
  CHECK(growth.most() == 125);
  CHECK(BatchGrowth{}.after(epoch) == 1);
}

TEST_CASE("peers that agree on a total follow it exactly, and add up again from there", "[unit]") {
  Counting swarm({.budget = 1000, .batch = batch, .weigh_max = 4});
  swarm.work.count(swarm.now += 1s, 5);
  swarm.work.agree_on(swarm.now, 200);
  CHECK(swarm.work.counted() == 200);
  CHECK(swarm.work.progress(swarm.now + 5s) == 0.2);
  CHECK(swarm.work.factor() == 1);
  CHECK(swarm.work.steps_left_of(150) == 6);  // This is 800 / 150 = 5.33, rounded up.
  swarm.work.agree_on(swarm.now += 2s, 400);
  CHECK(swarm.work.pace() == Approx(100));
  // Peers may roll back to an earlier version.
  swarm.work.agree_on(swarm.now, 300);
  CHECK(swarm.work.counted() == 300);
  CHECK(swarm.work.steps_left_of(150) == 5);
  swarm.work.agree_on(swarm.now, 1000);
  CHECK(swarm.work.steps_left_of(150) == 0);
  CHECK(swarm.work.is_used_up());
  // After a switch to a rule that does not wait, the agreed total remains, and reports add to it.
  Counting later({.budget = 1000, .batch = batch});
  later.work.count(later.now += 1s, 5);
  later.work.agree_on(later.now, 200);
  later.report(PeerId{2}, {.samples = 50});
  CHECK(later.work.counted() == 200);
  later.work.count(later.now += 1s, 5);
  later.report(PeerId{2}, {.samples = 80});
  CHECK(later.work.counted() == 280);
  // After another switch, the agreed total includes the work that the other peer has done
  // meanwhile. That work counts only once.
  later.work.agree_on(later.now += 1s, 480);
  later.report(PeerId{2}, {.samples = 180});
  CHECK(later.work.counted() == 480);
  later.now += 1s;
  later.report(PeerId{2}, {.samples = 190});
  CHECK(later.work.counted() == 490);
}

TEST_CASE("the samples of all peers add up, those of peers that are gone included", "[unit]") {
  Counting swarm;
  for (const std::uint64_t id : {2, 3, 4}) swarm.report(PeerId{id}, {});
  std::uint64_t trained = 0;
  for (int second = 1; second <= 20; ++second) {
    swarm.now += 1s;
    swarm.work.count(swarm.now, 5);
    trained += 5 * batch;
    for (const std::uint64_t id : {2, 3}) {
      swarm.report(PeerId{id}, {.samples = static_cast<std::uint64_t>(second) * 60});
      trained += 60;
    }
    // Peer 4 trains for ten seconds, and is never heard of again.
    if (second > 10) continue;
    swarm.report(PeerId{4}, {.samples = static_cast<std::uint64_t>(second) * 60});
    trained += 60;
  }
  CHECK(swarm.work.counted() == trained);
  CHECK(swarm.work.own().samples == 20 * 5 * batch);
  CHECK(swarm.work.own().counted == trained);
}

TEST_CASE("between reports a peer is assumed to go on for ten seconds at its pace", "[unit]") {
  Counting swarm({.budget = 10000, .batch = batch}, 1);
  swarm.report(PeerId{2}, {});
  for (int second = 1; second <= 10; ++second) {
    swarm.now += 1s;
    swarm.work.count(swarm.now, 10);
    swarm.report(PeerId{2}, {.samples = static_cast<std::uint64_t>(second) * 100});
  }
  CHECK(swarm.work.progress(swarm.now) == Approx(0.2));
  swarm.now += 5s;
  CHECK(swarm.work.progress(swarm.now) == Approx(0.25));
  swarm.now += 20s;
  CHECK(swarm.work.progress(swarm.now) == Approx(0.3));
  // Only the reported work is counted.
  CHECK(swarm.work.counted() == 2000);
  // The estimate never falls, even if the other peer did nothing meanwhile.
  swarm.report(PeerId{2}, {.samples = 1001});
  CHECK(swarm.work.progress(swarm.now) == Approx(0.3));
}

TEST_CASE("a newcomer learns the total that more than a third of the peers report", "[unit]") {
  Counting swarm;
  // In its first two seconds a peer does not believe any single peer.
  swarm.report(PeerId{2}, {.samples = 1U << 30, .counted = 1U << 30});
  CHECK(swarm.work.counted() == 0);
  swarm.now += 2s;
  swarm.work.count(swarm.now, 1);
  swarm.report(PeerId{3}, {.samples = 20000, .counted = 60000});
  swarm.report(PeerId{4}, {.samples = 20000, .counted = 60100});
  // At least two of four peers now report 60,100 samples, and at most one peer can be hostile.
  CHECK(swarm.work.counted() == 60100);
  // A total counts once, however many peers report it.
  swarm.report(PeerId{3}, {.samples = 20000, .counted = 60100});
  CHECK(swarm.work.counted() == 60100);
}

TEST_CASE("work of peers that were away is not added to a total that includes it", "[unit]") {
  Counting swarm;
  std::uint64_t each = 0;
  const auto train = [&](std::initializer_list<std::uint64_t> heard) {
    for (int second = 0; second < 10; ++second) {
      swarm.now += 1s;
      swarm.work.count(swarm.now, 10);
      each += 100;
      if (heard.size() == 0) swarm.hear_nobody();
      for (const std::uint64_t id : heard) {
        swarm.report(PeerId{id}, {.samples = each, .counted = 4 * each});
      }
    }
  };
  for (const std::uint64_t id : {2, 3, 4}) swarm.report(PeerId{id}, {});
  train({2, 3, 4});
  REQUIRE(swarm.work.counted() == 4 * each);
  // For a minute the others receive each other's reports, and we receive none. Then two of them
  // report the total of all peers, and later the third does too.
  for (int tens = 0; tens < 6; ++tens) train({});
  for (const std::uint64_t id : {2, 3, 4}) {
    REQUIRE(swarm.members.find(PeerId{id})->state == MemberState::dead);
  }
  ++swarm.incarnation;
  for (const std::uint64_t id : {2, 3}) {
    swarm.report(PeerId{id}, {.samples = each, .counted = 4 * each});
  }
  CHECK(swarm.work.counted() == 4 * each);
  swarm.report(PeerId{4}, {.samples = each, .counted = 4 * each});
  CHECK(swarm.work.counted() == 4 * each);
  // From then on, the work of these peers counts.
  train({2, 3, 4});
  CHECK(swarm.work.counted() == 4 * each);
}

TEST_CASE("one report cannot use up the budget", "[unit]") {
  Counting swarm;
  for (const std::uint64_t id : {2, 3, 4}) swarm.report(PeerId{id}, {});
  for (int second = 1; second <= 20; ++second) {
    swarm.now += 1s;
    swarm.work.count(swarm.now, 10);
    for (const std::uint64_t id : {2, 3}) {
      swarm.report(PeerId{id}, {.samples = static_cast<std::uint64_t>(second) * 100});
    }
    // Peer 4 is hostile: it claims the whole budget, in its own count and as a total.
    swarm.report(PeerId{4}, {.samples = 1ULL << (20 + second), .counted = 1ULL << 40});
    // For ten seconds, the work of peer 4 counts at up to four times the fastest pace (100 a
    // second), and then at up to four times its own mean pace.
    const std::uint64_t honest = 300 * static_cast<std::uint64_t>(second);
    if (second <= 10)
      CHECK(swarm.work.counted() <= honest + 400 * static_cast<std::uint64_t>(second));
    CHECK_FALSE(swarm.work.is_used_up());
  }
}

TEST_CASE("all peers together announce at most a hundred times", "[unit]") {
  Counting swarm({.budget = 10000, .batch = batch});
  int news = 0;
  for (int step = 0; step < 1000; ++step) {
    swarm.now += 1ms;
    swarm.work.count(swarm.now, 1);
    news += swarm.work.is_news();
  }
  // The peer has used up the whole budget alone.
  CHECK(news == 100);
}

TEST_CASE("a peer that is far faster than the others is soon counted in full", "[unit]") {
  Counting swarm({.budget = 1U << 30, .batch = batch}, 2);
  for (const std::uint64_t id : {2, 3}) swarm.report(PeerId{id}, {});
  std::uint64_t fast = 0;
  std::uint64_t slow = 0;
  for (int second = 1; second <= 60; ++second) {
    swarm.now += 1s;
    swarm.work.count(swarm.now, 1);
    swarm.report(PeerId{2}, {.samples = fast += 1000});
    swarm.report(PeerId{3}, {.samples = slow += 10});
  }
  CHECK(swarm.work.counted() == 60 * 10 + fast + slow);
}

TEST_CASE("a count that begins again adds to what its peer has done before", "[unit]") {
  Counting swarm({.budget = 100000, .batch = batch}, 1);
  swarm.report(PeerId{2}, {});
  const auto train = [&](std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t samples = from; samples <= to; samples += 100) {
      swarm.now += 1s;
      swarm.work.count(swarm.now, 10);
      swarm.report(PeerId{2}, {.samples = samples});
    }
  };
  train(100, 1000);
  CHECK(swarm.work.counted() == 2000);
  swarm.report(PeerId{2}, {.samples = 0}, Phase::joining);
  train(100, 500);
  CHECK(swarm.work.counted() == 3000);
  // A slightly older report changes nothing.
  swarm.report(PeerId{2}, {.samples = 400});
  swarm.report(PeerId{2}, {.samples = 500});
  CHECK(swarm.work.counted() == 3000);
}

TEST_CASE("updates are longer where steps are fewer than a peer's share of the data", "[unit]") {
  const auto factor_at = [](std::uint64_t own_steps, std::uint64_t own_data, double weigh_max) {
    Counting swarm({.budget = 1U << 30,
                    .batch = batch,
                    .data = own_data,
                    .all_data = own_data + 3000,
                    .weigh_max = weigh_max});
    for (const std::uint64_t id : {2, 3, 4}) swarm.report(PeerId{id}, {.data = 1000});
    for (int second = 1; second <= 30; ++second) {
      swarm.now += 1s;
      swarm.work.count(swarm.now, own_steps);
      for (const std::uint64_t id : {2, 3, 4}) {
        swarm.report(PeerId{id},
                     {.samples = static_cast<std::uint64_t>(second) * 100, .data = 1000});
      }
    }
    return swarm.work.factor();
  };
  // Equal data and equal paces.
  CHECK(factor_at(10, 1000, 4) == Approx(1).epsilon(0.01));
  // Half the pace: 1/4 of the data over 1/7 of the steps.
  CHECK(factor_at(5, 1000, 4) == Approx(7.0 / 4).epsilon(0.01));
  // A fifth of the pace: 1/4 of the data over 1/16 of the steps. A tenth of the pace would need
  // 31/4, which is beyond the limit of 4.
  CHECK(factor_at(2, 1000, 4) == Approx(4).epsilon(0.01));
  CHECK(factor_at(1, 1000, 4) == Approx(4));
  // Twice the data: 2/5 of the data over 1/4 of the steps.
  CHECK(factor_at(10, 2000, 4) == Approx(8.0 / 5).epsilon(0.01));
  CHECK(factor_at(1, 1000, 1) == 1);
}

TEST_CASE("private files of unlike size count in full, and a false size for little", "[unit]") {
  const auto factor_beside = [](std::uint64_t fourth, bool has_own_files) {
    Counting swarm({.budget = 1U << 30,
                    .batch = batch,
                    .data = 1000,
                    .all_data = 1000,
                    .has_own_files = has_own_files,
                    .weigh_max = 4});
    for (int second = 0; second <= 30; ++second) {
      swarm.now += 1s;
      swarm.work.count(swarm.now, 10);
      for (const std::uint64_t id : {2, 3, 4}) {
        swarm.report(PeerId{id}, {.samples = static_cast<std::uint64_t>(second) * 100,
                                  .data = id == 4 ? fourth : 1000});
      }
    }
    return swarm.work.factor();
  };
  // 1000 of 8000 samples over a quarter of the steps.
  CHECK(factor_beside(5000, true) == Approx(0.5).epsilon(0.01));
  // No shard is believed to have more than all data, here 1000 samples.
  CHECK(factor_beside(5000, false) == Approx(1).epsilon(0.01));
  // 1000 of 19,000 samples over a quarter of the steps.
  CHECK(factor_beside(std::uint64_t{1} << 60, true) == Approx(4.0 / 19).epsilon(0.01));
}

TEST_CASE("a newcomer takes over for how long the swarm has trained", "[unit]") {
  Counting swarm({.budget = 100000, .batch = batch, .wall = 60s});
  const auto follow = [&](Duration passed) {
    swarm.work.follow_clock(swarm.now += passed, true, swarm.members);
  };
  follow(0s);
  // Two peers that have trained before say hello. For two seconds, one hostile peer could pose as
  // both.
  follow(1s);
  CHECK(swarm.work.own().ran_ms == 1000);
  swarm.now += 1s;
  swarm.report(PeerId{2}, {.samples = 9000, .ran_ms = 40'000});
  swarm.report(PeerId{3}, {.samples = 9000, .ran_ms = 40'000});
  follow(0s);
  CHECK(swarm.work.own().ran_ms == 40'000);
  swarm.now += 19s;
  swarm.report(PeerId{2}, {.samples = 9000, .ran_ms = 59'000});
  swarm.report(PeerId{3}, {.samples = 9000, .ran_ms = 59'000});
  follow(0s);
  CHECK_FALSE(swarm.work.is_time_over(swarm.now));
  CHECK(swarm.work.is_time_over(swarm.now, 1s));
  follow(1s);
  CHECK(swarm.work.is_time_over(swarm.now));
}

TEST_CASE("a false clock does not end the run of peers that have only just begun", "[unit]") {
  Counting swarm({.budget = 100000, .batch = batch, .wall = 60s});
  swarm.work.follow_clock(swarm.now, true, swarm.members);
  swarm.report(PeerId{2}, {.ran_ms = 60'000});
  swarm.report(PeerId{3}, {.ran_ms = 0});
  swarm.report(PeerId{4}, {.ran_ms = 1000});
  swarm.work.follow_clock(swarm.now += 3s, true, swarm.members);
  CHECK(swarm.work.own().ran_ms == 3000);
  CHECK_FALSE(swarm.work.is_time_over(swarm.now, 1s));
}

TEST_CASE("a jump of our clock is not one of the swarm's", "[unit]") {
  Counting swarm({.budget = 100000, .batch = batch, .wall = 60s});
  for (int second = 0; second <= 5; ++second) {
    swarm.now = Time(std::chrono::seconds(second));
    const auto ran_ms = static_cast<std::uint64_t>(1000 * second);
    for (const std::uint64_t peer : {2, 3, 4}) swarm.report(PeerId{peer}, {.ran_ms = ran_ms});
    swarm.work.follow_clock(swarm.now, true, swarm.members);
  }
  swarm.work.follow_clock(swarm.now += 100s, true, swarm.members);
  CHECK_FALSE(swarm.work.is_time_over(swarm.now, 1s));
}

TEST_CASE("a peer whose clock alone is over goes on with the others", "[unit]") {
  Counting swarm({.budget = 100000, .batch = batch, .wall = 60s, .resumed = {.ran = 59s}});
  swarm.work.follow_clock(swarm.now, true, swarm.members);
  for (int second = 1; second <= 5; ++second) {
    swarm.now += 1s;
    const auto ran_ms = static_cast<std::uint64_t>(1000 * second);
    for (const std::uint64_t peer : {2, 3, 4}) swarm.report(PeerId{peer}, {.ran_ms = ran_ms});
    swarm.work.follow_clock(swarm.now, true, swarm.members);
  }
  CHECK_FALSE(swarm.work.is_time_over(swarm.now));
}

TEST_CASE("a single false clock neither ends the run nor turns ours back", "[unit]") {
  Counting swarm({.budget = 100000, .batch = batch, .wall = 60s}, 4);
  swarm.work.follow_clock(swarm.now, true, swarm.members);
  for (int second = 1; second <= 10; ++second) {
    swarm.now += 1s;
    const auto ran_ms = static_cast<std::uint64_t>(1000 * second);
    swarm.report(PeerId{2}, {.ran_ms = ran_ms});
    swarm.report(PeerId{3}, {.ran_ms = second % 2 == 0 ? 1U : ~std::uint64_t{0}});
    swarm.report(PeerId{4}, {.ran_ms = ran_ms});
    swarm.work.follow_clock(swarm.now, true, swarm.members);
  }
  CHECK(swarm.work.own().ran_ms == 10'000);
}

TEST_CASE("time goes on from a checkpoint, and leases only with chunks of the same size",
          "[unit]") {
  SwarmNote note{
      .samples = 500, .ran = 50s, .ledger = LedgerEntry{}, .chunk_samples = 160, .budget = 100000};
  note.ledger->whole = 3;
  Notes notes;
  write(note, notes);
  const SwarmNote read = swarm_note_in(notes);
  CHECK(read.ran == 50s);
  CHECK(read.samples == 500);
  const SwarmWorkOptions options{
      .budget = 100000, .batch = batch, .wall = 60s, .chunk_steps = 16, .resumed = read};
  Counting same(options);
  CHECK(same.work.ledger()->whole() == 3);
  same.work.follow_clock(same.now, true, same.members);
  same.work.follow_clock(same.now += 10s, true, same.members);
  CHECK(same.work.is_time_over(same.now));
  CHECK(same.work.note().ran == 60s);
  SwarmWorkOptions other = options;
  other.chunk_steps = 8;
  CHECK(Counting(other).work.ledger()->whole() == 0);
  // The last chunk of 400 samples had only 80, and has 160 in a larger budget.
  SwarmWorkOptions larger = options;
  larger.resumed.budget = 400;
  CHECK(Counting(larger).work.ledger()->whole() == 2);
  larger.resumed.budget = larger.budget = 400;
  CHECK(Counting(larger).work.ledger()->whole() == 3);
  notes["swarm_ledger"] = "3 5";
  notes["swarm_ran_ms"] = "-1";
  CHECK_NOTHROW(swarm_note_in(notes));
}

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
  Counting swarm({.budget = 1U << 30, .batch = batch, .data = 1000, .all_data = 2000}, 1);
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
  Counting swarm({.budget = 10000, .batch = batch, .data = 100, .all_data = 400}, 2);
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
  Counting swarm({.budget = 1600, .batch = batch, .weigh_max = 1, .chunk_steps = 4}, 1);
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

TEST_CASE("peers that agree on a total show each other's counts and no age of reports", "[unit]") {
  Counting swarm({.budget = 1000, .batch = batch}, 1);
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

}  // namespace gv
