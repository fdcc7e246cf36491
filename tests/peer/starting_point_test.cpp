// The state from which a resuming peer begins, and whether its run had ended.
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "consensus/message/facts.hpp"
#include "peer/config/task.hpp"
#include "peer/modes/mean_end.hpp"
#include "peer/node/swarm_note.hpp"
#include "peer/node/whole_replica.hpp"
#include "tests/peer/config_texts.hpp"
#include "tests/peer/saved_step.hpp"
#include "tests/temporary_folder.hpp"
#include "train/checkpoint/checkpoint.hpp"

namespace gv {

using namespace std::chrono_literals;

TEST_CASE("a peer resumes from the newest checkpoint that its learner accepts", "[unit]") {
  const TemporaryFolder folder;
  const auto with = [](const std::string& optimizer) {
    return sound("[run]\npeers = 1\n[train]\noptimizer = \"" + optimizer + "\"\n");
  };
  save_step(folder.path(), with("adam"), "", 5);
  save_step(folder.path(), with("sgd"), "", 9);
  const Task task = load_task(with("adam"), 0);
  const StartingPoint point = starting_point(task, learner_of(task), folder.path(), 0, true);
  CHECK(point.step == 5);
  REQUIRE(point.facts.size() == 2);
  const auto* refused = std::get_if<CheckpointRefused>(&point.facts[0]);
  REQUIRE(refused != nullptr);
  CHECK(refused->why.find("step-0000000009") != std::string::npos);
  CHECK(refused->why.find("another optimiser") != std::string::npos);
  CHECK(std::holds_alternative<Resumed>(point.facts[1]));
}

TEST_CASE("a peer does not begin beside sound checkpoints of other settings", "[unit]") {
  const TemporaryFolder folder;
  const auto with = [](const std::string& settings) {
    return sound("[run]\npeers = 1\n" + settings);
  };
  const auto start = [&](const std::string& settings) {
    const Task task = load_task(with(settings), 0);
    REQUIRE(task.problems.empty());
    return starting_point(task, learner_of(task), folder.path(), 0, true);
  };
  const Config first = with("[train]\noptimizer = \"sgd\"\n");
  save_step(folder.path(), first, "", 5);
  save_step(folder.path(), first, "", 9);
  CHECK(lost_checkpoints(start("[train]\noptimizer = \"sgd\"\n")).empty());
  const StartingPoint refused = start("[train]\noptimizer = \"adam\"\n");
  REQUIRE(refused.problems.size() == 1);
  CHECK(refused.problems.front().place.find("step-0000000009") != std::string::npos);
  CHECK(refused.problems.front().reason.find("another optimiser") != std::string::npos);
  CHECK(start("[model]\nkind = \"mlp\"\nhidden = [3]\n").problems.size() == 1);
  CHECK(start("[train]\noptimizer = \"sgd\"\n").problems.empty());

  // A peer with damaged checkpoints may still start, since other peers may have the model.
  for (const auto& file : parameter_files(folder.path())) std::filesystem::resize_file(file, 100);
  const StartingPoint damaged = start("[train]\noptimizer = \"sgd\"\n");
  CHECK(damaged.problems.empty());
  CHECK(std::holds_alternative<ResumedFromNothing>(damaged.facts.back()));
  // People must be told that checkpoints were lost, unless there were none at all.
  const std::vector<Fact> lost = lost_checkpoints(damaged);
  REQUIRE(lost.size() == 3);
  CHECK(std::holds_alternative<CheckpointRefused>(lost[0]));
  CHECK(std::holds_alternative<CheckpointRefused>(lost[1]));
  CHECK(std::holds_alternative<ResumedFromNothing>(lost[2]));
  std::filesystem::remove_all(folder.path());
  CHECK(lost_checkpoints(start("[train]\noptimizer = \"sgd\"\n")).empty());
}

TEST_CASE("a note of the end of a run comes back from a checkpoint", "[unit]") {
  const RunEnd end{.budget = 38400,
                   .wall = 1500ms,
                   .target = 0.1 + 0.2,
                   .is_time_over = true,
                   .models = 3,
                   .lineage = 1234567890123456789};
  Notes notes;
  write({.samples = 500, .end = end}, notes);
  CHECK(swarm_note_in(notes).end == end);
  notes["swarm_end"] = "38400 1500 x";
  CHECK_FALSE(swarm_note_in(notes).end);
  notes.erase("swarm_end");
  CHECK_FALSE(swarm_note_in(notes).end);
}

TEST_CASE("the end of a run counts for a later one unless a limit that had ended it is higher",
          "[unit]") {
  const SwarmWorkOptions run{.budget = 1000, .wall = 60s, .target = {.value = 0.5}};
  const RunEnd unknown{.budget = 1000, .wall = 60s, .target = 0.5};
  RunEnd by_budget = unknown;
  by_budget.is_used_up = true;
  RunEnd by_time = unknown;
  by_time.is_time_over = true;
  RunEnd by_target = unknown;
  by_target.is_target_reached = true;
  for (const RunEnd& end : {unknown, by_budget, by_time, by_target}) {
    CHECK(is_over_for(run, end));
    CHECK(is_over_for({.budget = 900, .wall = 50s, .target = {.value = 0.4}}, end));
    CHECK_FALSE(is_over_for({.budget = 2000, .wall = 120s, .target = {.value = 0.6}}, end));
    CHECK_FALSE(is_over_for({.budget = 2000}, end));
  }
  SwarmWorkOptions more = run;
  more.budget = 2000;
  CHECK_FALSE(is_over_for(more, by_budget));
  CHECK(is_over_for(more, by_time));
  SwarmWorkOptions longer = run;
  longer.wall = 120s;
  CHECK_FALSE(is_over_for(longer, by_time));
  CHECK(is_over_for(longer, by_target));
  SwarmWorkOptions better = run;
  better.target.value = 0.6;
  CHECK_FALSE(is_over_for(better, by_target));
  CHECK(is_over_for(better, by_budget));
  CHECK_FALSE(is_over_for(better, unknown));
}

TEST_CASE("a mean has its version again after a restart and another mean has another", "[unit]") {
  const MeanEnd end{.version_step = 1002, .step = 300, .note = {.end = RunEnd{.budget = 1000}}};
  const ModelVersion of_three{.step = 1002, .samples = 1004, .lineage = 5};
  const ModelVersion of_two{.step = 1002, .samples = 1003, .lineage = 6};
  for (const ModelVersion& version : {of_three, of_two}) {
    const auto note = end.note_of(version);
    REQUIRE(note);
    CHECK(version_of(*note->end, 1002) == version);
  }
  CHECK(is_before(of_two, of_three));
  // The version of a peer's own model is not the version of the mean.
  CHECK_FALSE(end.note_of({.step = 1001, .samples = 1001, .lineage = 5}));
}

}  // namespace gv
