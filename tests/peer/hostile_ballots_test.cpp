// What one hostile peer can do to the ballots of sound ones, and what it cannot.
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
#include "tests/signers.hpp"

namespace gv {

using namespace std::chrono_literals;

namespace {

constexpr PeerId hostile{9};
constexpr ModelVersion beginning{.lineage = 1};

/// Sound peers 1 to n on a network without delays, and a hostile one that says what a test makes it
/// say. The hostile one is a candidate like the others.
class Table {
 public:
  explicit Table(std::size_t sound, ReplicaPlanner::Options options = {}) : planner_(options) {
    for (std::size_t i = 1; i <= sound; ++i) ids_.push_back(PeerId{i});
    std::vector<PeerId> all = ids_;
    all.push_back(hostile);
    for (const PeerId id : ids_) {
      Agreement peer(id, 1, {}, signer_of(id));
      peer.set_version(beginning);
      peer.set_candidates(now, all);
      peers_.emplace(id, std::move(peer));
    }
    Effects out;
    at(1).disturb(now, {}, out);
    carry_out(PeerId{1}, out);
    run_for(2s);
  }

  Agreement& at(std::uint64_t id) { return peers_.at(PeerId{id}); }

  /// The hostile peer says this to all peers, or to one.
  void say(const Message& message, std::optional<PeerId> to = {}) {
    for (const PeerId id : ids_) {
      if (!to || id == *to) waiting_.push_back({hostile, id, message});
    }
    deliver();
  }

  /// One of the peers ends the generation, blaming no peer.
  void disturb(std::uint64_t id) {
    Effects out;
    at(id).disturb(now, {}, out);
    carry_out(PeerId{id}, out);
    run_for(0s);
  }

  void refuse(std::uint64_t id, PeerId refused) {
    Effects out;
    REQUIRE(at(id).refuse(now, refused, out));
    at(id).disturb(now, {refused}, out);
    carry_out(PeerId{id}, out);
    run_for(0s);
  }

  void run_for(Duration time) {
    deliver();
    for (const Time end = now + time;;) {
      Time next = never;
      for (const auto& [id, peer] : peers_) next = std::min(next, std::max(now, peer.deadline()));
      count(std::min(next, end) - now);
      now = std::min(next, end);
      if (next > end) return;
      for (auto& [id, peer] : peers_) {
        Effects out;
        peer.tick(now, planner_, out);
        carry_out(id, out);
      }
      deliver();
    }
  }

  /// The peers of the generation of peer `id`; none if the peer is in no generation.
  std::vector<PeerId> together(std::uint64_t id) {
    const Generation* generation = at(id).generation();
    if (generation == nullptr) return {};
    std::vector<PeerId> peers = generation->order;
    std::ranges::sort(peers);
    return peers;
  }

  /// A generation of all sound peers and the hostile one, as a sound peer would install it.
  Generation sound_generation(const GenerationId& id) const {
    Generation generation{.id = id, .version = beginning};
    generation.order = ids_;
    generation.order.push_back(hostile);
    generation.sources = generation.order;
    generation.shares.assign(generation.order.size(), 1);
    return generation;
  }

  std::size_t told_unsound() const { return unsound_; }

  Time now{};
  double seconds_together = 0;  ///< Time in which peer 1 was in a generation.
  /// The hostile peer's answers to what it is told; it says nothing if this is empty.
  std::function<std::optional<Message>(const Message&)> answer;
  /// Each generation that a sound peer has begun.
  std::vector<GenerationId> begun;

 private:
  struct Letter {
    PeerId from;
    PeerId to;
    Message message;
  };

  void count(Duration time) {
    if (at(1).generation() != nullptr) seconds_together += seconds(time);
  }

  void deliver() {
    for (int letters = 0; !waiting_.empty(); ++letters) {
      REQUIRE(letters < 100000);
      const Letter letter = std::move(waiting_.front());
      waiting_.pop_front();
      if (letter.to == hostile) {
        const auto said = answer ? answer(letter.message) : std::nullopt;
        if (said) waiting_.push_back({hostile, letter.from, *said});
        continue;
      }
      Effects out;
      Agreement& peer = peers_.at(letter.to);
      peer.receive(now, letter.from, letter.message, planner_, out);
      if (peer.is_spoilt()) peer.disturb(now, {}, out);
      carry_out(letter.to, out);
    }
  }

  void carry_out(PeerId from, const Effects& out) {
    for (const Outgoing& outgoing : out.messages) {
      waiting_.push_back({from, outgoing.to, outgoing.message});
    }
    for (const Fact& fact : out.facts) {
      unsound_ += std::holds_alternative<UnsoundMessage>(fact);
      if (std::holds_alternative<GenerationBegan>(fact)) {
        begun.push_back(peers_.at(from).generation()->id);
      }
    }
  }

  ReplicaPlanner planner_;
  std::vector<PeerId> ids_;
  std::map<PeerId, Agreement> peers_;
  std::deque<Letter> waiting_;
  std::size_t unsound_ = 0;
};

const auto promise = [](const Message& message) -> std::optional<Message> {
  const auto* propose = std::get_if<Propose>(&message);
  if (propose == nullptr) return {};
  return Message(Promise{propose->ballot, {.version = beginning}});
};

std::vector<PeerId> peers(std::initializer_list<std::uint64_t> ids) {
  std::vector<PeerId> all;
  for (const std::uint64_t id : ids) all.push_back(PeerId{id});
  return all;
}

}  // namespace

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
  // Without a flaw, all peers begin the same proposal.
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
    // And generations last: fewer begin than are proposed.
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

TEST_CASE("numbers of ballots rise only with what more than a third of all peers report",
          "[unit]") {
  const std::uint64_t far = std::uint64_t{1} << 40;
  Table table(3);
  // Neither the largest ballot nor many at one peer lift the others beyond reach.
  table.say(Propose{{.number = ballot_number_max, .proposer = hostile}});
  CHECK(table.together(1) == peers({1, 2, 3}));
  table.say(Preempted{{.number = ballot_number_max, .proposer = hostile}});
  for (std::uint64_t i = 1; i <= 100; ++i) {
    table.say(Propose{{.number = i * far / 100, .proposer = hostile}}, PeerId{2});
    table.run_for(100ms);
  }
  table.run_for(20s);
  CHECK(table.together(2) == peers({1, 2, 3}));
  CHECK(table.at(2).promised().number < far);
  CHECK(std::ranges::is_sorted(table.begun));

  // A newcomer finds the ballots of a swarm that is far ahead.
  const ReplicaPlanner planner({});
  Agreement newcomer(PeerId{4}, 1, {}, signer_of(PeerId{4}));
  newcomer.set_version(beginning);
  newcomer.set_candidates(Time{}, {PeerId{1}, PeerId{2}, PeerId{3}, PeerId{4}});
  Effects out;
  const GenerationId theirs{.number = far, .proposer = PeerId{1}};
  newcomer.receive(Time{}, PeerId{1}, Message(Propose{theirs}), planner, out);
  CHECK(newcomer.promised().number == 0);
  newcomer.receive(Time{}, PeerId{2}, Message(Preempted{theirs}), planner, out);
  newcomer.receive(Time{}, PeerId{1}, Message(Propose{theirs}), planner, out);
  CHECK(newcomer.promised() == theirs);
}

TEST_CASE("a newcomer that met a hostile peer first comes down to the ballots of the others",
          "[unit]") {
  const ReplicaPlanner planner({});
  Agreement newcomer(PeerId{4}, 1, {}, signer_of(PeerId{4}));
  newcomer.set_version(beginning);
  newcomer.set_candidates(Time{}, {PeerId{4}, hostile});
  Effects out;
  const GenerationId high{.number = std::uint64_t{1} << 48, .proposer = hostile};
  newcomer.receive(Time{}, hostile, Message(Preempted{high}), planner, out);
  newcomer.receive(Time{}, hostile, Message(Propose{high}), planner, out);
  REQUIRE(newcomer.promised() == high);
  newcomer.set_candidates(Time{}, {PeerId{1}, PeerId{2}, PeerId{3}, PeerId{4}, hostile});
  const GenerationId theirs{.number = 5, .proposer = PeerId{1}};
  newcomer.receive(Time{}, PeerId{2}, Message(Preempted{theirs}), planner, out);
  newcomer.receive(Time{}, PeerId{1}, Message(Propose{theirs}), planner, out);
  CHECK(newcomer.promised() == theirs);
  // A single peer cannot lower the promised ballot.
  newcomer.receive(Time{}, PeerId{3}, Message(Propose{{.number = 4, .proposer = PeerId{3}}}),
                   planner, out);
  CHECK(newcomer.promised() == theirs);
}

TEST_CASE("settings that jump far ahead are not installed and an operator can still switch",
          "[unit]") {
  ReplicaPlanner::Options options;
  options.revision_problem = [](const SettingsRevision&) { return std::string(); };
  Table table(3, options);
  const auto install = [&](std::uint64_t number, std::uint64_t revision) {
    const GenerationId ballot{.number = number, .proposer = hostile};
    table.say(Propose{ballot});
    Generation generation = table.sound_generation(ballot);
    generation.revision = {.number = revision, .settings = "theirs"};
    table.say(installed(generation));
  };
  install(100, revision_number_max);
  table.run_for(2s);
  CHECK(table.at(1).revision().number == 0);
  install(200, 3);
  CHECK(table.at(1).revision().number == 3);
  table.disturb(1);
  table.run_for(2s);
  table.answer = [&](const Message& message) {
    auto said = promise(message);
    if (said) std::get<Promise>(*said).answer.revision = {revision_number_max, "theirs"};
    return said;
  };
  table.at(2).set_revision({table.at(2).revision().number + 1, "ours"});
  table.disturb(1);
  table.run_for(2s);
  for (const std::uint64_t id : {1, 2, 3}) {
    REQUIRE(table.at(id).generation() != nullptr);
    CHECK(table.at(id).generation()->revision == SettingsRevision{4, "ours"});
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
  CHECK(table.begun.size() == begun);  // It rests, and no peer ends the generation for its sake.
  table.refuse(3, hostile);
  table.run_for(2s);
  for (const std::uint64_t id : {1, 2, 3}) CHECK(table.together(id) == peers({1, 2, 3}));
  CHECK(table.at(2).is_excluded(hostile));  // Although they have never met.
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
  // Peer 1 hears ballots of the peer that it refuses, and is in generations with it.
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
    // Hostile peers accuse any others, sound ones those that misbehaved towards them.
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
        // The peer is out only if it refuses a peer itself.
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
    // A hostile peer that refuses one which does not refuse it is out, so its accusers are in.
    const bool refuses_first =
        hostile_peers == 1 && std::ranges::any_of(accused[all.front()], [&](PeerId peer) {
          return !exclusion.refuses(peer, all.front());
        });
    if (refuses_first) REQUIRE(order.size() == n - 1);
    // One hostile peer can keep out no more than a third of all.
    if (hostile_peers == 1) REQUIRE(3 * order.size() + 3 >= 2 * n);
  }
  INFO(excluded << " excluded, " << rests << " rest");
  CHECK(excluded > 1000);
  CHECK(rests > 1000);
}

}  // namespace gv
