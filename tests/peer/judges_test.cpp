// Judges of a target accuracy: which peers are chosen, which measure, and how many may lie.
#include "peer/modes/judges.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <limits>
#include <set>
#include <vector>

#include "consensus/membership/statement.hpp"
#include "tests/signers.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t every = 1000;

/// Peers with ids from 1 on that train and report to each other, with a target of 0.8.
class Panel {
 public:
  explicit Panel(std::size_t count) : count_(count) {
    for (std::uint64_t id = 1; id <= count; ++id) roster_.push_back(PeerId{id});
    for (const PeerId id : roster_) {
      judges.emplace_back(id, TargetOptions{.value = 0.8, .every = every, .seed = 7});
      members_.emplace_back(
          Member{.id = id, .name = "us", .address = "virtual:0", .layout_hash = 3}, roster_,
          Membership::Options(), signer_of(id), Rng(1));
    }
    for (std::size_t i = 0; i < count; ++i) report(i, {});
  }

  /// Peer number `from` reports to all others.
  void report(std::size_t from, const std::optional<TargetVerdict>& verdict,
              Phase phase = Phase::training) {
    Member member{
        .id = roster_[from],
        .name = "peer",
        .address = "virtual:1",
        .layout_hash = 3,
        .version = ++versions_,
        .progress = {.step = ++versions_, .phase = phase, .work = WorkDone{.verdict = verdict}}};
    restate(member, signer_of(member.id));
    for (std::size_t to = 0; to < count_; ++to) {
      Effects out;
      if (to != from)
        members_[to].receive(now_, member.id, Ping{1, member.progress, {member}, 0}, out);
    }
  }

  /// Every judge reads the reports. `counted` is the number of samples trained by all peers
  /// together.
  void hear(std::uint64_t counted) {
    now_ += 1s;
    for (std::size_t i = 0; i < count_; ++i) {
      judges[i].hear(now_, counted, members_[i], voters.empty() ? nullptr : &voters);
    }
  }

  /// One peer's judge reads the reports.
  void hear(std::size_t peer, std::uint64_t counted) {
    now_ += 1s;
    judges[peer].hear(now_, counted, members_[peer]);
  }

  /// The peers that should measure their models now.
  std::set<std::size_t> due() const {
    std::set<std::size_t> all;
    for (std::size_t i = 0; i < count_; ++i) {
      if (judges[i].is_due()) all.insert(i);
    }
    return all;
  }

  /// A peer measures its model and reports the result to all.
  void measure(std::size_t peer, double value) {
    judges[peer].begin();
    judges[peer].learn(value);
    report(peer, judges[peer].verdict());
  }

  std::vector<Judges> judges;
  std::vector<PeerId> voters;  ///< The only voters. If empty, all vote and judges are random.

 private:
  std::size_t count_;
  std::vector<PeerId> roster_;
  std::vector<Membership> members_;
  Time now_{};
  std::uint64_t versions_ = 0;
};

bool none_ends(const Panel& panel) {
  return std::ranges::none_of(panel.judges, [](const Judges& one) { return one.is_reached(); });
}

bool all_end(const Panel& panel) {
  return std::ranges::all_of(panel.judges, [](const Judges& one) { return one.is_reached(); });
}

}  // namespace

TEST_CASE("three judges are drawn for each sitting and measure once", "[unit]") {
  Panel panel(9);
  panel.hear(every - 1);
  CHECK(panel.due().empty());
  std::set<std::size_t> ever;
  for (std::uint64_t sitting = 1; sitting <= 40; ++sitting) {
    panel.hear(sitting * every);
    const std::set<std::size_t> drawn = panel.due();
    REQUIRE(drawn.size() == 3);
    for (const std::size_t peer : drawn) panel.measure(peer, 0.5);
    ever.insert(drawn.begin(), drawn.end());
    panel.hear(sitting * every + every / 2);
    REQUIRE(panel.due().empty());
  }
  CHECK(ever.size() == 9);
  CHECK(none_ends(panel));
}

TEST_CASE("when most judges have the target all measure, and more than half end the run",
          "[unit]") {
  Panel panel(9);
  panel.hear(every);
  const std::set<std::size_t> drawn = panel.due();
  auto judge = drawn.begin();
  panel.measure(*judge++, 0.81);
  panel.hear(every);
  CHECK(panel.due().size() == 2);  // So far only the other two judges measure.
  panel.measure(*judge++, 0.8);
  panel.measure(*judge, 0.79);
  panel.hear(every);
  const std::set<std::size_t> others = panel.due();
  CHECK(others.size() == 6);
  CHECK(none_ends(panel));
  std::size_t votes = 2;
  for (const std::size_t peer : others) {
    panel.measure(peer, 0.9);
    panel.hear(every);
    ++votes;
    CHECK(all_end(panel) == (votes >= 5));
    CHECK(none_ends(panel) == (votes < 5));
  }
  CHECK(panel.judges.front().votes() == 8);
  CHECK(panel.judges.front().voters() == 9);
}

TEST_CASE("a peer whose count lags behind measures when the judges of others have the target",
          "[unit]") {
  Panel panel(7);
  panel.hear(10 * every);
  const std::set<std::size_t> drawn = panel.due();
  for (const std::size_t peer : drawn) panel.measure(peer, 0.9);
  for (std::size_t peer = 0; peer < 7; ++peer) {
    if (drawn.contains(peer)) continue;
    panel.hear(peer, 7 * every);
    CHECK(panel.judges[peer].is_due());
    panel.measure(peer, 0.9);
    CHECK_FALSE(panel.judges[peer].is_due());
  }
  panel.hear(10 * every);
  CHECK(all_end(panel));
}

TEST_CASE("a peer that measures less than before takes its vote back", "[unit]") {
  Panel panel(3);
  panel.hear(every);
  panel.measure(0, 0.9);
  panel.measure(1, 0.9);
  panel.hear(every);
  CHECK(all_end(panel));
  panel.hear(2 * every);
  panel.measure(1, 0.7);
  panel.hear(2 * every);
  CHECK(none_ends(panel));
}

TEST_CASE("fewer than a third liars neither end a run nor delay its end", "[unit]") {
  constexpr std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();
  const std::size_t count = GENERATE(4, 7, 10);
  const std::size_t liars = (count - 1) / 3;
  Panel panel(count);
  INFO(count << " peers");
  SECTION("by claims that they have it") {
    for (std::uint64_t sitting = 1; sitting <= 30; ++sitting) {
      for (std::size_t liar = 0; liar < liars; ++liar)
        panel.report(liar, TargetVerdict{largest, true});
      panel.hear(sitting * every);
      for (const std::size_t peer : panel.due()) {
        if (peer >= liars) panel.measure(peer, 0.5);
      }
      panel.hear(sitting * every);
      for (std::size_t peer = liars; peer < count; ++peer) {
        REQUIRE_FALSE(panel.judges[peer].is_reached());
      }
    }
  }
  SECTION("by claims that they have not") {
    std::uint64_t sitting = 0;
    while (!panel.judges.back().is_reached() && sitting < 30) {
      ++sitting;
      for (std::size_t liar = 0; liar < liars; ++liar) {
        panel.report(liar, TargetVerdict{largest, false});
      }
      for (int look = 0; look < 2; ++look) {
        panel.hear(sitting * every);
        for (const std::size_t peer : panel.due()) {
          if (peer >= liars) panel.measure(peer, 0.9);
        }
      }
      panel.hear(sitting * every);
    }
    // All honest peers measure as soon as two honest peers are among the random judges.
    CHECK(sitting < 10);
    for (std::size_t peer = liars; peer < count; ++peer) CHECK(panel.judges[peer].is_reached());
  }
}

TEST_CASE("a peer that has not begun to train has no vote and is no judge", "[unit]") {
  Panel panel(4);
  panel.report(3, {}, Phase::joining);
  panel.hear(every);
  CHECK(panel.judges[0].voters() == 3);
  panel.measure(0, 0.9);
  panel.measure(1, 0.9);
  panel.hear(every);
  CHECK(panel.judges[0].is_reached());
}

TEST_CASE("only a panel votes, none of it is drawn, and more than half of it end the run",
          "[unit]") {
  Panel panel(5);
  panel.voters = {PeerId{1}, PeerId{2}, PeerId{3}};
  panel.hear(4 * every);
  CHECK(panel.due().empty());
  const auto say = [&](std::size_t peer, std::uint64_t sitting) {
    panel.report(peer, TargetVerdict{sitting, true});
  };
  say(3, 4);
  say(4, 4);
  say(0, 4);
  panel.hear(4 * every);
  CHECK(panel.judges[4].votes() == 1);
  CHECK(panel.judges[4].voters() == 3);
  // This verdict belongs to a sitting that we have not reached, perhaps because we have rolled
  // back.
  say(1, 5);
  panel.hear(4 * every);
  CHECK_FALSE(panel.judges[4].is_reached());
  say(1, 3);
  panel.hear(4 * every);
  CHECK(panel.judges[4].is_reached());
  // The last stage has moved to other peers.
  panel.voters = {PeerId{1}, PeerId{5}};
  panel.hear(4 * every);
  CHECK_FALSE(panel.judges[4].is_reached());
}

TEST_CASE("a peer alone judges itself", "[unit]") {
  Panel panel(1);
  panel.hear(every);
  CHECK(panel.due().size() == 1);
  panel.measure(0, 0.79);
  panel.hear(every);
  CHECK(none_ends(panel));
  panel.hear(2 * every);
  panel.measure(0, 0.8);
  panel.hear(2 * every);
  CHECK(all_end(panel));
}

}  // namespace gv
