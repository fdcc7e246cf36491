// A hostile peer raises the numbers of ballots and of settings revisions.
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "consensus/generation/agreement.hpp"
#include "peer/modes/replica_planner.hpp"
#include "tests/peer/hostile_table.hpp"
#include "tests/signers.hpp"

namespace gv {

using namespace std::chrono_literals;

TEST_CASE("numbers of ballots rise only with what more than a third of all peers report",
          "[unit]") {
  const std::uint64_t far = std::uint64_t{1} << 40;
  Table table(3);
  // Neither the largest ballot number nor many numbers sent to one peer prevent further ballots.
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

  // A newcomer learns the ballot numbers of a swarm that is far ahead.
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

TEST_CASE("no ballot of a peer comes again after its ballots were lifted and came down", "[unit]") {
  const ReplicaPlanner planner({});
  Agreement peer(PeerId{1}, 1, {}, signer_of(PeerId{1}));
  peer.set_version(beginning);
  const std::vector<PeerId> others = {PeerId{2}, PeerId{3}, hostile};
  peer.set_candidates(Time{}, peers({1, 2, 3, 9}));
  Time now{1h};
  Effects out;
  const auto hear = [&](PeerId from, const Message& message) {
    peer.receive(now, from, message, planner, out);
  };
  peer.disturb(now, {}, out);
  constexpr std::uint64_t far = Agreement::numbers_ahead_max;
  std::set<GenerationId> decided;
  for (const std::uint64_t near : {0, 1}) {
    out = {};
    hear(hostile, Propose{{.number = near + far, .proposer = hostile}});
    hear(hostile, Propose{{.number = 2 * far, .proposer = hostile}});
    hear(hostile, EndGeneration{peer.promised(), others});
    peer.tick(now, planner, out);
    REQUIRE(peer.promised().number == 2 * far + 1);
    hear(hostile, Promise{peer.promised(), {.version = beginning}});
    now += 1s;
    peer.tick(now, planner, out);
    for (const Outgoing& outgoing : out.messages) {
      const auto* install = std::get_if<Install>(&outgoing.message);
      if (install != nullptr && outgoing.to == hostile) {
        CHECK(decided.insert(install->generation.id).second);
      }
    }
    // The other peers have stayed at lower ballot numbers, and bring this peer's number down again.
    now += 1h;
    hear(PeerId{2}, Propose{{.number = near + 1, .proposer = PeerId{2}}});
    REQUIRE(peer.promised().number == near + 1);
  }
  CHECK(decided.size() == 2);
}

TEST_CASE("settings are judged once and only where they are awaited", "[unit]") {
  int judged = 0;
  ReplicaPlanner::Options options;
  options.revision_problem = [&judged](const SettingsRevision&) {
    ++judged;
    return std::string();
  };
  Table table(3, options);
  const Answer answer{.version = beginning, .revision = {.number = 1, .settings = "theirs"}};
  for (std::uint64_t number = 0; number < 100; ++number) {
    table.say(Promise{{.number = number, .proposer = PeerId{1}}, answer});
  }
  CHECK(judged == 0);
  const GenerationId ballot{.number = 100, .proposer = hostile};
  table.say(Propose{ballot});
  Generation without_one = table.sound_generation(ballot);
  without_one.order = peers({2, 3, 9});
  without_one.sources = without_one.order;
  without_one.shares.pop_back();
  without_one.revision = answer.revision;
  for (int again = 0; again < 100; ++again) table.say(installed(without_one), PeerId{1});
  CHECK(judged == 1);
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

}  // namespace gv
