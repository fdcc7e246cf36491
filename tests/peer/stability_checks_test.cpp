// Settings that make asynchronous rules diverge are refused, and the message states the bound.
#include <catch2/catch.hpp>
#include <string>

#include "peer/config/switched_mixing.hpp"
#include "tests/peer/config_texts.hpp"

namespace gv {
namespace {

std::string named(const std::string& algorithm, const std::string& more) {
  return "[run]\npeers = 8\nalgorithm = \"" + algorithm + "\"\n" + more;
}

}  // namespace

// With seven workers, each change is applied only after 13 others. The bound is 2 sin(pi / 54) =
// 0.116.
TEST_CASE("a rate that is too large for DOWNPOUR's delay is refused with the bound", "[unit]") {
  const Problem problem = only_problem(named("async_downpour", "[train]\nlearning_rate = 0.25\n"));
  CHECK(problem.place == "a.toml:5: train.learning_rate");
  CHECK(problem.reason.find("13 others late in the mean where 8 peers") != std::string::npos);
  CHECK(problem.reason.find("0.116") != std::string::npos);
  CHECK(problem.remedy == "write learning_rate = 0.1 or less");
  sound(named("async_downpour", "[train]\nlearning_rate = 0.116\n"));
  sound(named("downpour", "[train]\noptimizer = \"sgd\"\nlearning_rate = 0.25\n"));
  // Ten steps shorten a distance by a fraction of 0.114 at a learning rate of 0.012, and of 0.123
  // at 0.013. The bound is 0.116.
  sound(named("async_downpour", "[train]\nlearning_rate = 0.012\n[mixing]\nperiod_steps = 10\n"));
  CHECK(only_problem(named("async_downpour",
                           "[train]\nlearning_rate = 0.013\n[mixing]\nperiod_steps = 10\n"))
            .remedy.find("period_steps") != std::string::npos);
  // The bound holds only for plain descent.
  sound(named("async_downpour", "[train]\noptimizer = \"adam\"\nlearning_rate = 0.25\n"));
}

// Two workers are 2 rounds late, four are 6 and one is 10. The mean delay is 38 changes, one of
// them the worker's own.
TEST_CASE("a tree of servers has the bound of its mean delay", "[unit]") {
  const Problem problem = only_problem(named("server_tree", "[train]\nlearning_rate = 0.05\n"));
  CHECK(problem.reason.find("37 others late") != std::string::npos);
  CHECK(problem.reason.find("0.0419") != std::string::npos);
  sound(named("server_tree", "[train]\nlearning_rate = 0.04\n"));
}

TEST_CASE("an alpha that is too large for workers in turn is refused with the bound", "[unit]") {
  // Two steps at a learning rate of 0.5 shorten a distance by a fraction q = 0.75, so the bound is
  // (4 - 2 q) / (4 - q) = 0.769.
  const std::string text = "[train]\nlearning_rate = 0.5\n[gossip]\nperiod_steps = 2\nalpha = ";
  const Problem problem = only_problem(named("async_easgd", text + "0.78\n"));
  CHECK(problem.place == "a.toml:8: gossip.alpha");
  CHECK(problem.reason.find("0.769") != std::string::npos);
  CHECK(problem.remedy == "write alpha = 0.69 or less");
  sound(named("async_easgd", text + "0.76\n"));
}

// Two steps at a rate of 3 multiply a distance by (1 - 3)^2 = 4. The resulting pull, 1 - 4 = -3,
// looks harmless.
TEST_CASE("a rate above 2 is refused also where an even number of steps hides its growth",
          "[unit]") {
  const std::string train = "[train]\noptimizer = \"sgd\"\nlearning_rate = 3.0\n";
  const std::string two = "period_steps = 2\n";
  for (const std::string& text : {named("async_downpour", train + "[mixing]\n" + two),
                                  named("slicing", train + "[mixing]\n" + two),
                                  named("async_easgd", train + "[gossip]\n" + two)}) {
    INFO(text);
    const Problems found = problems_of(text);
    REQUIRE(found.size() == 1);
    CHECK(found.front().place.ends_with("train.learning_rate"));
  }
}

TEST_CASE("slices that train frozen for too long are refused with the bound", "[unit]") {
  const std::string rate = "[train]\nlearning_rate = 0.1\n[mixing]\n";
  sound(named("slicing", rate + "fragments = 8\nperiod_steps = 2\n"));
  const Problem problem =
      only_problem(named("slicing", rate + "fragments = 8\nperiod_steps = 3\n"));
  CHECK(problem.place == "a.toml:5: train.learning_rate");
  CHECK(problem.reason.find("8 slices train") != std::string::npos);
  CHECK(problem.reason.find("0.0914") != std::string::npos);  // This is 1 - 0.75^(1/3).
  sound(named("slicing", rate + "fragments = 4\nperiod_steps = 6\n"));
  CHECK(problems_of(named("slicing", rate + "fragments = 4\nperiod_steps = 7\n")).size() == 1);
}

TEST_CASE("a centre that rests needs pairs of its own choice and data of its own", "[unit]") {
  CHECK(only_problem(named("async_easgd", "[gossip]\npairing = \"matching\"\n")).place ==
        "a.toml:5: gossip.pairing");
  CHECK(only_problem("[gossip]\npairing = \"uniform\"\ncentre_rests = true\n").reason ==
        "has no effect here");
  CHECK(only_problem(named("async_easgd", "[data]\npartition = \"leased\"\n")).place ==
        "a.toml:5: data.partition");
}

TEST_CASE("a running swarm is not switched to a rule that its rate is too large for", "[unit]") {
  const auto problems = [](const std::string& rate) {
    const Config running =
        sound(named("d_psgd", "[train]\noptimizer = \"sgd\"\nlearning_rate = " + rate + "\n"));
    return switched_mixing(running, revision_settings("async_downpour")).problems;
  };
  CHECK(problems("0.1").empty());
  REQUIRE(problems("0.3").size() == 1);
  CHECK(problems("0.3").front().reason.find("0.116") != std::string::npos);
}

TEST_CASE("topology hosts is for whole models in rounds", "[unit]") {
  CHECK(only_problem("[gossip]\ntopology = \"hosts\"\n").reason.starts_with("hosts: all peers"));
  CHECK(only_problem("[run]\nmode = \"pipeline\"\n[pipeline]\nconsensus = \"mixing\"\n"
                     "[mixing]\ntopology = \"hosts\"\n")
            .reason == "replicas of a stage do not know each other's hosts");
  CHECK(
      sound(named("host_gossip", "[mixing]\nhosts_every = 5\n")).mixing.rule.topology.hosts_every ==
      5);
}

}  // namespace gv
