// The swarm's budget: what a peer counts, believes and reports, and how it weighs its updates.
#include "peer/modes/swarm_work.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "peer/node/swarm_note.hpp"
#include "tests/peer/counting.hpp"

namespace gv {

using namespace std::chrono_literals;

TEST_CASE("a batch that grows makes the updates of Smith's first experiment", "[unit]") {
  // There are 50,000 samples in batches of 128. After 60, 120 and 160 of 200 epochs, the learning
  // rate falls or the batch grows by a factor of 5. That makes 78,000 updates if the learning rate
  // falls, and 28,800 if the batch grows (Smith 2018 says 80,000 and 29,000).
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
  Counting swarm({.budget = 1000, .batch = counting_batch, .weigh_max = 4});
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
  Counting later({.budget = 1000, .batch = counting_batch});
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
    trained += 5 * counting_batch;
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
  CHECK(swarm.work.own().samples == 20 * 5 * counting_batch);
  CHECK(swarm.work.own().counted == trained);
}

TEST_CASE("between reports a peer is assumed to go on for ten seconds at its pace", "[unit]") {
  Counting swarm({.budget = 10000, .batch = counting_batch}, 1);
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
  // In its first two seconds a peer does not believe a single peer's report.
  swarm.report(PeerId{2}, {.samples = 1U << 30, .counted = 1U << 30});
  CHECK(swarm.work.counted() == 0);
  swarm.now += 2s;
  swarm.work.count(swarm.now, 1);
  swarm.report(PeerId{3}, {.samples = 20000, .counted = 60000});
  swarm.report(PeerId{4}, {.samples = 20000, .counted = 60100});
  // Two of four peers now report 60,100 samples or more, and at most one of them can be hostile.
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
  Counting swarm({.budget = 10000, .batch = counting_batch});
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
  Counting swarm({.budget = 1U << 30, .batch = counting_batch}, 2);
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
  Counting swarm({.budget = 100000, .batch = counting_batch}, 1);
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
                    .batch = counting_batch,
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
                    .batch = counting_batch,
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
  Counting swarm({.budget = 100000, .batch = counting_batch, .wall = 60s});
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
  Counting swarm({.budget = 100000, .batch = counting_batch, .wall = 60s});
  swarm.work.follow_clock(swarm.now, true, swarm.members);
  swarm.report(PeerId{2}, {.ran_ms = 60'000});
  swarm.report(PeerId{3}, {.ran_ms = 0});
  swarm.report(PeerId{4}, {.ran_ms = 1000});
  swarm.work.follow_clock(swarm.now += 3s, true, swarm.members);
  CHECK(swarm.work.own().ran_ms == 3000);
  CHECK_FALSE(swarm.work.is_time_over(swarm.now, 1s));
}

TEST_CASE("a jump of our clock is not one of the swarm's", "[unit]") {
  Counting swarm({.budget = 100000, .batch = counting_batch, .wall = 60s});
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
  Counting swarm({.budget = 100000, .batch = counting_batch, .wall = 60s, .resumed = {.ran = 59s}});
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
  Counting swarm({.budget = 100000, .batch = counting_batch, .wall = 60s}, 4);
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

TEST_CASE("time and leases go on from a checkpoint, also with chunks of another size", "[unit]") {
  SwarmNote note{
      .samples = 500, .ran = 50s, .ledger = LedgerNote{}, .chunk_samples = 160, .budget = 100000};
  note.ledger->whole = 3;
  Notes notes;
  write(note, notes);
  const SwarmNote read = swarm_note_in(notes);
  CHECK(read.ran == 50s);
  CHECK(read.samples == 500);
  const SwarmWorkOptions options{
      .budget = 100000, .batch = counting_batch, .wall = 60s, .chunk_steps = 16, .resumed = read};
  Counting same(options);
  CHECK(same.work.ledger()->whole() == 3);
  same.work.follow_clock(same.now, true, same.members);
  same.work.follow_clock(same.now += 10s, true, same.members);
  CHECK(same.work.is_time_over(same.now));
  CHECK(same.work.note().ran == 60s);
  // 480 samples are done, whatever the chunks are.
  SwarmWorkOptions other = options;
  other.chunk_steps = 7;
  CHECK(Counting(other).work.ledger()->whole() == 6);
  other.batch = 480;
  CHECK(Counting(other).work.ledger()->whole() == 0);
  // The checkpoint is from a run without leased data.
  other = options;
  other.resumed.ledger.reset();
  CHECK(Counting(other).work.ledger()->whole() == 3);
  CHECK(Counting(other).work.counted() == 480);
  // In a budget of 400 samples, the last chunk has only 80 samples. In a larger budget it has 160.
  SwarmWorkOptions larger = options;
  larger.resumed.budget = 400;
  CHECK(Counting(larger).work.ledger()->whole() == 2);
  larger.resumed.budget = larger.budget = 400;
  CHECK(Counting(larger).work.ledger()->whole() == 3);
  notes["swarm_ledger"] = "3 5";
  notes["swarm_ran_ms"] = "-1";
  CHECK_NOTHROW(swarm_note_in(notes));
}

TEST_CASE("a checkpoint notes all chunks that are done and those under way", "[unit]") {
  const LedgerNote ledger{
      .whole = 3, .mine = {{5, 1}}, .done = {{5, 2}, {9, 4}}, .begun = {{3, 16}, {7, 5}}};
  Notes notes;
  write({.samples = 500, .ledger = ledger, .chunk_samples = 160}, notes);
  CHECK(swarm_note_in(notes).ledger == ledger);
  // Earlier versions of the program wrote only this note, without `done` and `begun`.
  CHECK(notes["swarm_ledger"] == "3 5 1");
  Notes old = notes;
  old.erase("swarm_ledger_done");
  old.erase("swarm_ledger_begun");
  CHECK(swarm_note_in(old).ledger ==
        LedgerNote{.whole = 3, .mine = {{5, 1}}, .done = {}, .begun = {}});
  // Notes that are invalid or too long are left out.
  notes["swarm_ledger_done"] = " 5 0 9 4";
  notes["swarm_ledger_begun"] = " 3 x";
  CHECK(swarm_note_in(notes).ledger ==
        LedgerNote{.whole = 3, .mine = {{5, 1}}, .done = {}, .begun = {}});
  std::string many;
  for (int chunk = 0; chunk < 10'000; ++chunk) many += " " + std::to_string(2 * chunk) + " 1";
  notes["swarm_ledger_done"] = notes["swarm_ledger_begun"] = many;
  CHECK(swarm_note_in(notes).ledger->done.empty());
  CHECK(swarm_note_in(notes).ledger->begun.size() == leased_chunks_max);
  notes["swarm_chunk_samples"] = "18446744073709551615";
  CHECK_FALSE(swarm_note_in(notes).ledger);
  notes["swarm_ledger"] = "18446744073709551615";
  CHECK_FALSE(swarm_note_in(notes).ledger);
}

TEST_CASE("a peer that was stopped has the pace that it had before", "[unit]") {
  const auto factor_after = [](Duration stop, bool counts_first) {
    Counting swarm({.budget = 1U << 30,
                    .batch = counting_batch,
                    .data = 1000,
                    .all_data = 4000,
                    .weigh_max = 4});
    std::uint64_t told = 0;
    const auto report = [&] {
      for (const std::uint64_t id : {2, 3, 4}) {
        swarm.report(PeerId{id}, {.samples = told, .data = 1000});
      }
    };
    report();
    const auto train = [&] {
      swarm.now += 1s;
      told += 100;
      swarm.work.count(swarm.now, 10);
      report();
    };
    for (int second = 0; second < 30; ++second) train();
    // Meanwhile the others continue at their paces. The job under way ends just after the stop.
    swarm.now += stop;
    told += static_cast<std::uint64_t>(100 * seconds(stop));
    if (counts_first) swarm.work.count(swarm.now, 10);
    report();
    if (!counts_first) swarm.work.count(swarm.now += 1ms, 10);
    report();
    return swarm.work.factor();
  };
  CHECK(factor_after(1s, true) == Approx(1).epsilon(0.1));
  CHECK(factor_after(60s, true) == Approx(1).epsilon(0.1));
  CHECK(factor_after(60s, false) == Approx(1).epsilon(0.2));
}

TEST_CASE("a centre that rests counts what more than a third of the peers report", "[unit]") {
  const auto others = GENERATE(std::uint64_t{1}, std::uint64_t{2});
  Counting swarm({.budget = 100000, .batch = counting_batch}, others);
  for (std::uint64_t second = 1; second <= 20; ++second) {
    swarm.now += 1s;
    swarm.work.count(swarm.now, 0);
    swarm.report(PeerId{2}, {.samples = 100 * second, .counted = others * 100 * second});
    if (others == 1) continue;
    // Peer 3 is hostile.
    swarm.report(PeerId{3}, {.samples = 90000, .counted = 90000});
  }
  CHECK(swarm.work.counted() == others * 100 * 20);
}

}  // namespace gv
