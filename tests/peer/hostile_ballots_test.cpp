// The effects that one hostile peer can and cannot have on the ballots of honest peers.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/rng.hpp"
#include "consensus/generation/agreement.hpp"
#include "peer/modes/replica_planner.hpp"
#include "peer/modes/stage_planner.hpp"
#include "tests/peer/hostile_table.hpp"
#include "tests/signers.hpp"

namespace gv {

using namespace std::chrono_literals;

TEST_CASE("an unsound Install begins nothing and the third costs its sender the others' company",
          "[unit]") {
  const std::uint32_t most = std::numeric_limits<std::uint32_t>::max();
  const std::vector<std::function<void(Generation&)>> spoils = {
      [&](Generation& g) { g.shares.assign(g.order.size(), most); },
      [](Generation& g) { g.shares.assign(g.order.size(), 0); },
      [](Generation& g) { g.shares.front() = 2; },
      [](Generation& g) { g.shares.pop_back(); },
      [](Generation& g) { g.hosts.push_back(7); },
      [](Generation& g) { g.sources.pop_back(); },
      [](Generation& g) { g.order.assign(g.order.size(), PeerId{1}); },
      [](Generation& g) { g.sources.front() = PeerId{77}; },
      [](Generation& g) {
        // Each source itself still has to get the state.
        g.version = {.step = 10, .samples = 10, .lineage = 7};
        g.sources = {PeerId{2}, PeerId{3}, PeerId{1}, hostile};
      },
      [](Generation& g) { g.algorithm = 255; },
      [](Generation& g) { g.version = {.step = 10, .samples = std::uint64_t{1} << 60}; },
      [](Generation& g) { g.version = {.step = std::uint64_t{1} << 60, .samples = 10}; },
      [](Generation& g) { g.assignments = {{.carrier = PeerId{1}, .source = PeerId{1}}}; },
      [](Generation& g) { g.revision = {.number = 1, .settings = "mixing.period_steps = 5\n"}; },
      [](Generation& g) { g.id.proposer = PeerId{1}; },
  };
  for (std::size_t i = 0; i < spoils.size(); ++i) {
    INFO("kind " << i);
    Table table(3);
    for (std::uint64_t number = 100; number <= 300; number += 100) {
      const GenerationId ballot{.number = number, .proposer = hostile};
      table.say(Propose{ballot});
      CHECK(table.at(1).promised() == ballot);
      Generation generation = table.sound_generation(ballot);
      spoils[i](generation);
      table.say(installed(generation));
      CHECK(std::ranges::none_of(table.begun, [&](const auto& id) { return id == ballot; }));
      CHECK(table.together(1).empty());
      table.run_for(1500ms);
      CHECK(table.together(1) == peers({1, 2, 3}));
    }
    CHECK(table.told_unsound() == 9);
    CHECK(table.at(1).is_excluded(hostile));
    table.say(Propose{{.number = 400, .proposer = hostile}});
    CHECK(table.together(1) == peers({1, 2, 3}));
  }
  // If the proposal has no flaw, all peers begin the generation.
  Table table(3);
  const GenerationId ballot{.number = 100, .proposer = hostile};
  table.say(Propose{ballot});
  table.say(installed(table.sound_generation(ballot)));
  CHECK(table.together(1) == std::vector{PeerId{1}, PeerId{2}, PeerId{3}, hostile});
  CHECK(table.told_unsound() == 0);
}

TEST_CASE("a peer that sends two decisions of one ballot is excluded by all and for good",
          "[unit]") {
  Table table(3);
  const GenerationId ballot{.number = 100, .proposer = hostile};
  table.say(Propose{ballot});
  Generation other = table.sound_generation(ballot);
  std::ranges::reverse(other.order);
  other.sources = other.order;
  table.say(installed(other), PeerId{3});
  table.say(installed(table.sound_generation(ballot)), PeerId{1});
  table.run_for(2s);
  for (const std::uint64_t id : {1, 2, 3}) {
    CHECK(table.at(id).is_excluded(hostile));
    CHECK(table.together(id) == peers({1, 2, 3}));
  }
  table.run_for(1h);
  CHECK(table.at(2).is_excluded(hostile));
  CHECK(table.told_unsound() == 0);
}

TEST_CASE("a peer whose state a proposer lies about ends the generation and accuses the proposer",
          "[unit]") {
  const bool is_source = GENERATE(true, false);
  Table table(3);
  // Peer 3 is named as the source of a state that it does not have, or is told to download a state
  // that it already has.
  const auto install = [&](std::uint64_t number) {
    const GenerationId ballot{.number = number, .proposer = hostile};
    table.say(Propose{ballot});
    Generation generation = table.sound_generation(ballot);
    if (is_source) {
      generation.version = {.step = 10, .samples = 10, .lineage = 7};
      generation.sources.assign(generation.order.size(), PeerId{3});
    } else {
      generation.sources[2] = PeerId{1};
    }
    table.say(installed(generation));
    return std::ranges::count(table.begun, ballot);
  };
  for (const std::uint64_t number : {100, 200, 300}) {
    CHECK(install(number) == 2);
    CHECK(table.together(1).empty());
    CHECK(table.together(2).empty());
    table.run_for(1500ms);
    CHECK(table.together(1) == peers({1, 2, 3}));
  }
  CHECK(table.told_unsound() == 3);
  CHECK(table.at(3).refuses(hostile));
  CHECK_FALSE(table.at(1).refuses(hostile));
  // Peer 3 no longer answers the hostile peer, so the others must not wait for its state.
  if (is_source) CHECK(install(400) == 0);
}

TEST_CASE("no peer begins a generation to get a state from a peer that it does not know",
          "[unit]") {
  Table table(3);
  const GenerationId ballot{.number = 100, .proposer = hostile};
  table.say(Propose{ballot});
  Generation generation = table.sound_generation(ballot);
  generation.version = {.step = 10, .samples = 10, .lineage = 7};
  generation.order.push_back(PeerId{77});
  generation.shares.push_back(1);
  generation.sources.assign(generation.order.size(), PeerId{77});
  table.say(installed(generation));
  CHECK(table.together(1).empty());
  CHECK(table.told_unsound() == 0);
  table.run_for(2s);
  for (const std::uint64_t id : {1, 2, 3}) CHECK(table.together(id) == peers({1, 2, 3}));
}

TEST_CASE("an Install without its proposer's signature begins nothing", "[unit]") {
  Table table(3);
  const GenerationId ballot{.number = 100, .proposer = hostile};
  table.say(Propose{ballot});
  Install install = installed(table.sound_generation(ballot));
  install.signature.front() ^= 1;
  table.say(install);
  CHECK(table.together(1).empty());
  CHECK(table.told_unsound() == 3);
}

TEST_CASE("a peer is not excluded by a false proof", "[unit]") {
  Table table(3);
  const auto decision = [](std::uint64_t step) {
    const Install install =
        installed({.id = {.number = 5, .proposer = PeerId{1}}, .version = {.step = step}});
    return decision_in(install, signer_of(PeerId{2}));
  };
  Equivocation claim{decision(1), decision(2)};
  claim.other.signature.front() ^= 1;
  table.say(claim);
  table.say(Equivocation{decision(1), decision(1)});
  CHECK(table.told_unsound() == 6);
  CHECK_FALSE(table.at(2).is_excluded(PeerId{1}));
}

TEST_CASE("what a hostile peer promises of itself is judged before it is planned with", "[unit]") {
  const std::vector<std::function<void(Answer&)>> spoils = {
      [](Answer& a) { a.version.samples = std::uint64_t{1} << 60; },
      [](Answer& a) { a.version.step = std::uint64_t{1} << 60; },
      [](Answer& a) { a.speed = -1; },
      [](Answer& a) { a.holdings = {{}}; },
      [](Answer& a) { a.leaves = true; },
      [](Answer& a) { a.revision = {.number = 1, .settings = "nonsense"}; },
  };
  for (std::size_t i = 0; i < spoils.size(); ++i) {
    INFO("kind " << i);
    Table table(3);
    table.answer = [&](const Message& message) {
      auto said = promise(message);
      if (said) spoils[i](std::get<Promise>(*said).answer);
      return said;
    };
    table.disturb(1);
    table.run_for(2s);
    CHECK(table.together(1) == peers({1, 2, 3}));
    CHECK(table.told_unsound() > 0);
  }
}

TEST_CASE("a hostile peer that proposes without end leaves the others nine tenths of their time",
          "[unit]") {
  for (const bool finishes : {false, true}) {
    Table table(3);
    table.answer = promise;
    table.run_for(1s);
    const double before = table.seconds_together;
    for (std::uint64_t number = 1; number <= 600; ++number) {
      const GenerationId ballot{.number = 10 * number + 1000, .proposer = hostile};
      table.say(Propose{ballot});
      if (finishes) table.say(installed(table.sound_generation(ballot)));
      table.run_for(100ms);
    }
    INFO("finishes " << finishes << ", generations " << table.begun.size() / 3);
    CHECK(table.seconds_together - before > 0.9 * 60);
    // Generations also last: far fewer of them begin than the hostile peer proposes.
    CHECK(table.begun.size() / 3 < 200);
  }
}

TEST_CASE("a hostile peer that preempts every ballot and ends every generation is overruled",
          "[unit]") {
  Table table(3);
  table.answer = [&](const Message& message) -> std::optional<Message> {
    const auto* propose = std::get_if<Propose>(&message);
    if (propose == nullptr) return {};
    GenerationId later = propose->ballot;
    ++later.number;
    return Message(Preempted{later});
  };
  const double before = table.seconds_together;
  for (int i = 0; i < 600; ++i) {
    if (table.at(1).generation() != nullptr) {
      table.say(EndGeneration{table.at(1).generation()->id, {}});
    }
    table.run_for(100ms);
  }
  CHECK(table.seconds_together - before > 0.8 * 60);
}

TEST_CASE("a hostile peer that restarts in every generation leaves the others most of their time",
          "[unit]") {
  const std::vector<std::uint64_t> witnesses =
      GENERATE(std::vector<std::uint64_t>{2}, std::vector<std::uint64_t>{1, 2, 3});
  Table table(3);
  table.answer = promise;
  const auto is_in = [&](std::uint64_t id) {
    return std::ranges::binary_search(table.together(id), hostile);
  };
  // True if all honest peers of the third peer's generation are in it.
  const auto works = [&] {
    const std::vector<PeerId> together = table.together(3);
    return !together.empty() && std::ranges::all_of(together, [&](PeerId peer) {
      return peer == hostile || table.together(static_cast<std::uint64_t>(peer)) == together;
    });
  };
  int worked = 0;
  for (int i = 0; i < 600; ++i) {
    for (const std::uint64_t id : witnesses) {
      if (is_in(id)) table.disturb(id, {hostile});
    }
    worked += works();
    // Admit the hostile peer again as soon as no peer refuses it.
    const bool is_free = std::ranges::none_of(
        witnesses, [&](std::uint64_t id) { return table.at(id).refuses(hostile); });
    if (is_free && works() && !is_in(3)) table.disturb(3);
    table.run_for(100ms);
  }
  CHECK(worked > 0.5 * 600);
}

TEST_CASE("a peer that is lost every two seconds takes part again each time", "[unit]") {
  Table table(3);
  table.answer = promise;
  table.disturb(1);
  for (int i = 0; i < 60; ++i) {
    REQUIRE(table.together(1) == std::vector{PeerId{1}, PeerId{2}, PeerId{3}, hostile});
    table.disturb(1, {hostile});
    table.run_for(2s);
  }
}

TEST_CASE("a hostile peer that ends no ballot leaves the others half of their time", "[unit]") {
  const bool answers = GENERATE(true, false);
  const Duration every = GENERATE(100ms, 1000ms, 2000ms, 3000ms);
  Table table(3);
  if (answers) table.answer = promise;
  table.run_for(1s);
  const double before = table.seconds_together;
  const double end = seconds(table.now.time_since_epoch()) + 60;
  std::uint64_t number = 100;
  while (seconds(table.now.time_since_epoch()) < end) {
    table.say(Propose{{.number = 10 * ++number, .proposer = hostile}});
    table.run_for(every);
  }
  INFO("every " << seconds(every) << " s, answers " << answers);
  CHECK(table.seconds_together - before > 0.5 * 60);
}

TEST_CASE("blame by a hostile peer removes none that has answered the ballot", "[unit]") {
  Table table(3);
  // The hostile peer blames all others once they have answered, and answers when it is asked again.
  std::set<GenerationId> blamed_in;
  table.answer = [&](const Message& message) -> std::optional<Message> {
    const auto* propose = std::get_if<Propose>(&message);
    if (propose == nullptr || !blamed_in.insert(propose->ballot).second) return promise(message);
    return Message(EndGeneration{propose->ballot, peers({1, 2, 3})});
  };
  table.disturb(1);
  table.run_for(1s);
  REQUIRE_FALSE(blamed_in.empty());
  for (const std::uint64_t id : {1, 2, 3}) {
    CHECK(table.together(id) == std::vector{PeerId{1}, PeerId{2}, PeerId{3}, hostile});
  }
}

TEST_CASE("a peer that one refuses stays and one that two of four refuse is out for a minute",
          "[unit]") {
  Table table(3);
  table.answer = promise;
  table.disturb(1);
  REQUIRE(table.together(1) == std::vector{PeerId{1}, PeerId{2}, PeerId{3}, hostile});
  table.refuse(1, hostile);
  table.run_for(2s);
  CHECK(table.together(2) == std::vector{PeerId{2}, PeerId{3}, hostile});
  CHECK(table.together(1).empty());
  const std::size_t begun = table.begun.size();
  table.run_for(20s);
  CHECK(table.begun.size() == begun);  // No peer ends the generation to let peer 1 in.
  table.refuse(3, hostile);
  table.run_for(2s);
  for (const std::uint64_t id : {1, 2, 3}) CHECK(table.together(id) == peers({1, 2, 3}));
  CHECK(table.at(2).is_excluded(hostile));  // Peer 2 itself has not refused it.
  table.say(Propose{{.number = 500, .proposer = hostile}});
  CHECK(table.together(2) == peers({1, 2, 3}));
  table.run_for(61s);
  CHECK_FALSE(table.at(1).is_excluded(hostile));
  CHECK_FALSE(table.at(2).is_excluded(hostile));
}

TEST_CASE("a peer that is unsound towards one other keeps it out for at most half of the time",
          "[unit]") {
  Table table(3);
  table.answer = promise;
  table.disturb(1);
  table.run_for(1s);
  const double before = table.seconds_together;
  for (int i = 0; i < 600; ++i) {
    table.say(Refusals{{PeerId{2}, PeerId{2}}}, PeerId{1});
    table.run_for(1s);
  }
  CHECK(table.seconds_together - before > 0.45 * 600);
  CHECK(table.seconds_together - before < 0.6 * 600);
}

TEST_CASE("where no peer waits for another a refusal that few share keeps nobody out", "[unit]") {
  Table table(3);
  table.answer = promise;
  for (const std::uint64_t id : {1, 2, 3}) table.at(id).set_in_step(false);
  table.disturb(1);
  table.run_for(1s);
  const auto all = table.together(2);
  REQUIRE(all == std::vector{PeerId{1}, PeerId{2}, PeerId{3}, hostile});
  const double before = table.seconds_together;
  for (int i = 0; i < 600; ++i) {
    table.say(Refusals{{PeerId{2}, PeerId{2}}}, PeerId{1});
    table.run_for(1s);
  }
  CHECK(table.seconds_together - before == Approx(600));
  // Peer 1 refuses the hostile peer, but still follows its ballots and joins its generations.
  table.disturb(1);
  table.run_for(2s);
  CHECK_FALSE(table.at(1).is_excluded(hostile));
  for (const std::uint64_t id : {1, 2, 3}) CHECK(table.together(id) == all);
  table.refuse(3, hostile);
  table.run_for(2s);
  for (const std::uint64_t id : {1, 2, 3}) {
    CHECK(table.at(id).is_excluded(hostile));
    CHECK(table.together(id) == peers({1, 2, 3}));
  }
}

TEST_CASE("accusations of a hostile peer keep no sound one out", "[unit]") {
  Table table(3);
  table.answer = promise;
  table.say(Refusals{peers({1, 2, 3})});
  table.disturb(1);
  table.run_for(2s);
  for (const std::uint64_t id : {1, 2, 3}) CHECK(table.together(id) == peers({1, 2, 3}));
}

TEST_CASE("over drawn accusations no sound peer is out for what hostile ones say", "[unit]") {
  std::size_t excluded = 0;
  std::size_t rests = 0;
  for (std::uint64_t seed = 1; seed <= 20000; ++seed) {
    Rng rng(seed);
    const std::size_t n = 1 + rng.below(24);
    const std::size_t hostile_peers = rng.below((n + 2) / 3);  // Fewer than a third.
    std::vector<PeerId> all;
    for (std::size_t i = 0; i < n; ++i) all.push_back(PeerId{i + 1});
    rng.shuffle(std::span(all));
    const auto is_sound = [&](PeerId peer) {
      return std::ranges::find(all, peer) - all.begin() >=
             static_cast<std::ptrdiff_t>(hostile_peers);
    };
    // Hostile peers accuse any others. Honest peers accuse only those that misbehaved towards them.
    const double malice = rng.uniform();
    const double misbehaviour = rng.uniform();
    std::map<PeerId, std::vector<PeerId>> accused;
    std::map<PeerId, std::size_t> sound_accusers;
    for (const PeerId from : all) {
      for (const PeerId to : all) {
        if (from == to || (is_sound(from) && is_sound(to))) continue;
        if (!rng.chance(is_sound(from) ? misbehaviour : malice)) continue;
        accused[from].push_back(to);
        sound_accusers[to] += is_sound(from);
      }
    }
    const PeerId self = all.back();
    REQUIRE(is_sound(self));
    Exclusion exclusion(self);
    for (const auto& [from, to] : accused) {
      if (from != self) exclusion.hear(Time{}, from, to);
    }
    for (const PeerId peer : accused[self]) exclusion.refuse(Time{}, peer);
    const std::vector<PeerId> order = exclusion.taking_part(all, all);
    INFO("seed " << seed << ", " << hostile_peers << " of " << n << " are hostile");
    for (const PeerId peer : all) {
      const bool is_in = std::ranges::find(order, peer) != order.end();
      if (is_sound(peer)) {
        REQUIRE_FALSE(exclusion.is_excluded(peer, all));
        // An honest peer is left out only if it refuses some peer itself.
        REQUIRE((is_in || !accused[peer].empty()));
        rests += !is_in;
      } else if (3 * sound_accusers[peer] > n) {
        REQUIRE(exclusion.is_excluded(peer, all));
        REQUIRE_FALSE(is_in);
        ++excluded;
      }
    }
    for (const PeerId a : order) {
      for (const PeerId b : order) REQUIRE_FALSE(exclusion.refuses(a, b));
    }
    // A hostile peer is left out if it refuses an honest peer that does not refuse it. Then the
    // peers that refuse the hostile one stay in.
    const bool refuses_first =
        hostile_peers == 1 && std::ranges::any_of(accused[all.front()], [&](PeerId peer) {
          return !exclusion.refuses(peer, all.front());
        });
    if (refuses_first) REQUIRE(order.size() == n - 1);
    // Besides itself, one hostile peer can keep out at most a third of all peers.
    if (hostile_peers == 1) REQUIRE(3 * order.size() + 3 >= 2 * n);
  }
  INFO(excluded << " excluded, " << rests << " rest");
  CHECK(excluded > 1000);
  CHECK(rests > 1000);
}

}  // namespace gv
