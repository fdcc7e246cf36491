// All-reduce peers as real processes that are killed, stopped and restarted, even all at once. The
// survivors continue and hold the same bits.
#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "peer/config/config.hpp"
#include "peer/config/task.hpp"
#include "peer/host/processors.hpp"
#include "tests/lockstep_points.hpp"
#include "tests/process/watched_swarm.hpp"
#include "train/built_in_learner.hpp"
#include "train/checkpoint/checkpoint.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

std::string lockstep(std::uint64_t steps, const std::string& extra = "",
                     const std::string& hidden = "[64]") {
  return fmt::format(R"([run]
mode = "allreduce"
steps = {}
linger_s = 20
[data]
kind = "generated"
[data.generated]
samples = 4000
test_samples = 500
[model]
kind = "mlp"
hidden = {}
[train]
batch = 32
)",
                     steps, hidden) +
         extra;
}

std::size_t peers_in_generation(Swarm& swarm, std::size_t number) {
  const auto began = swarm.events(number, "generation_began");
  return began.empty() ? 0 : began.back().value("peers", std::size_t{0});
}

/// The seconds that a peer lost in each interruption.
std::vector<double> seconds_lost(Swarm& swarm, std::size_t number) {
  std::vector<double> lost;
  for (const auto& event : swarm.events(number, "collective_resumed")) {
    lost.push_back(event.value("seconds_lost", -1.0));
  }
  return lost;
}

/// The parameters in the newest checkpoint, and the part of the optimiser's state that all peers
/// share. (With local steps, each peer also has a part of its own.)
std::vector<std::vector<float>> state_of(Swarm& swarm, std::size_t number) {
  ParsedConfig parsed = parse_config_file(swarm.config_file().string());
  parsed.config.run.peers = 4;
  const Task task = load_task(parsed.config, number);
  const auto trainer = built_in_learner(task.trainer, task.shard);
  const LoadedCheckpoint loaded =
      load_newest_checkpoint(swarm.folder(number) / "checkpoints", trainer->layout());
  if (!loaded.checkpoint) return {};
  std::vector<std::vector<float>> state = {loaded.checkpoint->parameters};
  const bool local = parsed.config.allreduce.local.period > 1;
  for (const auto& [name, values] : loaded.checkpoint->optimizer.vectors) {
    if (!local || name == "outer_momentum") state.push_back(values);
  }
  return state;
}

/// Waits until all peers have made their last step and left. Returns true if all then hold the same
/// bits.
bool end_alike(Swarm& swarm, const std::vector<std::size_t>& peers) {
  for (const std::size_t number : peers) {
    const Ending ending = swarm.wait_for_end(number, 100s);
    INFO(swarm.output(number));
    if (ending.exit_code != 0 || ending.signal != 0) return false;
  }
  const auto first = state_of(swarm, peers.front());
  if (first.empty()) return false;
  return std::ranges::all_of(peers,
                             [&](std::size_t number) { return state_of(swarm, number) == first; });
}

/// Settings for the ring algorithm, whose points docs/faults.md names. No checkpoint is written
/// before the end.
const std::string round_the_ring =
    "[allreduce]\nalgorithm = \"ring\"\n[checkpoint]\nevery_steps = 0\n";

/// Layers with 2.4 million parameters: 9.7 MB.
const std::string ten_megabytes = "[1536, 1536]";

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

/// Allows this thread, and the processes that it starts, only the first `count` of its processors.
/// So peers fill their processors on a machine of any size.
class FewProcessors {
 public:
  explicit FewProcessors(int count) {
    if (::sched_getaffinity(0, sizeof before_, &before_) != 0) return;
    cpu_set_t few = before_;
    for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
      if (CPU_ISSET(processor, &before_) && --count < 0) CPU_CLR(processor, &few);
    }
    is_changed_ = ::sched_setaffinity(0, sizeof few, &few) == 0;
  }
  ~FewProcessors() {
    if (is_changed_) ::sched_setaffinity(0, sizeof before_, &before_);
  }
  FewProcessors(const FewProcessors&) = delete;
  FewProcessors& operator=(const FewProcessors&) = delete;

 private:
  cpu_set_t before_{};
  bool is_changed_ = false;
};

/// Formats durations as "N NAME: median, 90 and 99 % and the worst".
std::string figures(const std::string& name, std::vector<double> all) {
  std::ranges::sort(all);
  const auto part = [&](double share) {
    return all[static_cast<std::size_t>(share * static_cast<double>(all.size() - 1))];
  };
  return fmt::format("{} {}: median {:.2f} s, 90 % {:.2f} s, 99 % {:.2f} s, worst {:.2f} s",
                     all.size(), name, part(0.5), part(0.9), part(0.99), all.back());
}

}  // namespace

TEST_CASE("when one in lockstep is killed the others go on within seconds and end with equal bits",
          "[process][waits]") {
  const std::size_t victim = GENERATE(std::size_t{0}, std::size_t{2});
  Swarm swarm(4, lockstep(3000));
  swarm.start_all();
  REQUIRE(swarm.reach({0, 1, 2, 3}, 100));
  swarm.kill(victim);
  std::vector<std::size_t> others = {0, 1, 2, 3};
  std::erase(others, victim);
  REQUIRE(swarm.go_on(others));
  for (const std::size_t number : others) {
    REQUIRE(eventually([&] { return !seconds_lost(swarm, number).empty(); }, 10s));
    CHECK(seconds_lost(swarm, number).front() < 10);
    CHECK(peers_in_generation(swarm, number) == 3);
    CHECK(swarm.events(number, "sum_refused").empty());
  }
  CHECK(end_alike(swarm, others));
}

TEST_CASE("two killed at once and then a third leave the last one working", "[process]") {
  Swarm swarm(4, lockstep(100000000));
  swarm.start_all();
  REQUIRE(swarm.reach({0, 1, 2, 3}, 100));
  swarm.signal(1, SIGKILL);
  swarm.signal(2, SIGKILL);
  REQUIRE(swarm.go_on({0, 3}));
  CHECK(peers_in_generation(swarm, 0) == 2);
  swarm.kill(0);
  REQUIRE(swarm.go_on({3}));
  CHECK(peers_in_generation(swarm, 3) == 1);
}

TEST_CASE("one that is started again takes the others' state and ends with their bits",
          "[process]") {
  Swarm swarm(4, lockstep(30000));
  swarm.start_all();
  REQUIRE(swarm.reach({0, 1, 2, 3}, 100));
  swarm.kill(1);
  REQUIRE(swarm.go_on({0, 2, 3}));
  // The first incarnation may already have adopted a state, because new shares can make it fall
  // behind.
  const std::size_t adopted = swarm.events(1, "state_adopted").size();
  swarm.start(1, {.extra = {"--resume"}});
  REQUIRE(swarm.go_on({0, 1, 2, 3}));
  CHECK(swarm.events(1, "state_adopted").size() > adopted);
  CHECK(end_alike(swarm, {0, 1, 2, 3}));
}

TEST_CASE("neighbours in lockstep keep to one processor until they cannot be divided evenly",
          "[process]") {
  constexpr std::size_t processors = 2;
  const FewProcessors allowed(processors);
  if (Processors().count() != processors) {
    WARN("peers are pinned where there are at least two processors; skipped");
    return;
  }
  constexpr std::size_t peers = 2 * processors;
  Swarm swarm(peers, lockstep(100000000));
  swarm.start_all();
  // Checks that each peer has one processor, which it shares only with its neighbour in the order.
  const auto are_placed = [&] {
    const nlohmann::json status = swarm.status(0);
    if (!status.is_object() || status["allreduce"]["order"].size() != peers) return false;
    std::set<int> taken;
    for (std::size_t place = 0; place < peers; place += 2) {
      std::set<int> pair;
      for (const std::size_t each : {place, place + 1}) {
        const auto name = status["allreduce"]["order"][each].get<std::string>();
        pair.merge(swarm.processors(std::stoul(name.substr(name.find('-') + 1))));
      }
      if (pair.size() != 1) return false;
      taken.merge(pair);
    }
    return taken.size() == processors;
  };
  CHECK(eventually(are_placed, 30s));
  swarm.kill(1);
  CHECK(eventually([&] { return swarm.processors(0).size() == processors; }, 30s));
}

TEST_CASE("one in lockstep that stands still is left out and takes part again when it wakes",
          "[process]") {
  Swarm swarm(4, lockstep(100000000));
  swarm.start_all();
  REQUIRE(swarm.reach({0, 1, 2, 3}, 100));
  swarm.signal(3, SIGSTOP);
  REQUIRE(eventually([&] { return peers_in_generation(swarm, 0) == 3; }, 30s));
  REQUIRE(swarm.go_on({0, 1, 2}));
  swarm.signal(3, SIGCONT);
  REQUIRE(swarm.go_on({0, 1, 2, 3}));
  CHECK(eventually([&] { return peers_in_generation(swarm, 0) == 4; }, 30s));
}

TEST_CASE(
    "when one that makes local steps is killed the others end with one model and one momentum",
    "[process][waits]") {
  Swarm swarm(3, lockstep(6004, "[allreduce]\nperiod = 8\nouter = \"nesterov\"\n"));
  swarm.start_all();
  REQUIRE(swarm.reach({0, 1, 2}, 200));
  swarm.kill(1);
  REQUIRE(swarm.go_on({0, 2}, 200));
  CHECK(peers_in_generation(swarm, 0) == 2);
  CHECK(end_alike(swarm, {0, 2}));
  // The peers share the parameters and the outer momentum. The last collective covers four steps.
  CHECK(state_of(swarm, 0).size() == 2);
}

TEST_CASE(
    "local steps killed and gone on with from a checkpoint end with the bits of a run without",
    "[process]") {
  const std::string config =
      lockstep(4000,
               "optimizer = \"adam\"\nlearning_rate = 0.001\n[checkpoint]\nevery_steps = 100\n"
               "[allreduce]\nperiod = 16\nlocal_after = 200\nouter = \"nesterov\"\n");
  Swarm whole(1, config);
  whole.start_all();
  REQUIRE(end_alike(whole, {0}));
  Swarm broken(1, config);
  broken.start_all();
  REQUIRE(broken.reach({0}, 600));
  broken.kill(0);
  broken.start(0, {.extra = {"--resume"}});
  REQUIRE(end_alike(broken, {0}));
  CHECK(broken.events(0, "resumed").size() == 1);
  CHECK(state_of(broken, 0) == state_of(whole, 0));
}

TEST_CASE("a launched run in lockstep names the peer it lost and goes on without it",
          "[process][waits]") {
  const TemporaryFolder folder;
  const auto file = [&](const std::string& name) { return (folder.path() / name).string(); };
  std::ofstream(file("run.toml")) << lockstep(20000);
  // The time of the fault counts from the moment when all peers train. 20,000 steps take several
  // seconds, however fast the sums are.
  std::ofstream(file("faults.toml"))
      << "[scenario]\n[[scenario.fault]]\nkind = \"kill\"\nat_s = 0.5\npeers = 2\n";
  std::string output;
  const Ending ending = run_grapevine({"launch", "-n", "4", file("run.toml"), "--faults",
                                       file("faults.toml"), "--folder", file("run")},
                                      output, 120s);
  INFO(output);
  CHECK(ending.exit_code == 0);
  CHECK(output.find("4 peers train in lockstep") != std::string::npos);
  CHECK(output.find("lost peer-2: ") != std::string::npos);
  CHECK(output.find("is made by the other 3") != std::string::npos);
  // The others make the lost peer's share of the steps.
  const std::size_t losses = output.find(" together; losses 1; ");
  REQUIRE(losses != std::string::npos);
  CHECK(std::stoul(output.substr(output.rfind(' ', losses - 1))) > 20000);
  CHECK(output.find("exchanges") == std::string::npos);  // There are no exchanges to report.
}

TEST_CASE("status shows the gradient noise scale where it is asked for", "[process]") {
  Swarm swarm(2, lockstep(100000000, "[allreduce]\nnoise_scale = true\n"));
  swarm.start_all();
  REQUIRE(swarm.reach({0, 1}, 20));
  std::string table;
  CHECK(run_grapevine({"status", swarm.folder(0).string()}, table).exit_code == 0);
  CHECK_THAT(table, Catch::Contains("gradient noise scale ") && Catch::Contains("; a step has "));
  const auto section = swarm.status(0)["noise_scale"];
  REQUIRE(section.is_object());
  CHECK(section.contains("variance"));
  CHECK(section.value("batch", 0) > 0);
}

TEST_CASE("large layers with small batches send their factors", "[process]") {
  const TemporaryFolder folder;
  const auto megabytes = [&](const std::string& name, const std::string& extra) {
    const std::string config = (folder.path() / (name + ".toml")).string();
    std::ofstream(config) << lockstep(30, extra, "[500, 500]");
    std::string output;
    const Ending ending = run_grapevine(
        {"launch", "-n", "2", config, "--folder", (folder.path() / name).string()}, output, 60s);
    INFO(output);
    REQUIRE(ending.exit_code == 0);
    const std::string label = "bytes ";
    const std::size_t line = output.find(label);
    REQUIRE(line != std::string::npos);
    return std::stod(output.substr(line + label.size()));
  };
  // 64 samples of 1,000 numbers travel once, instead of 250,000 numbers twice.
  CHECK(megabytes("factors", "[allreduce]\nsufficient_factors = true\n") <
        0.3 * megabytes("whole", ""));
}

TEST_CASE("one whose gradient is not finite leaves with a word and the others go on without it",
          "[process]") {
  const TemporaryFolder data;
  std::ofstream table(data.path() / "table.csv");
  for (int row = 0; row < 600; ++row) {
    // One sample, which a single peer gets, is so large that sums of its products are infinite.
    table << (row == 300 ? "3e38,3e38," : row % 2 == 0 ? "1,2," : "-1,-2,") << row % 2 << '\n';
  }
  table.close();
  std::string config = lockstep(3000, round_the_ring);
  const auto begin = config.find("[data]");
  config.replace(
      begin, config.find("[model]") - begin,
      fmt::format("[data]\nkind = \"csv\"\nfolder = \"{}\"\ntrain_files = [\"table.csv\"]\n"
                  "test_files = [\"table.csv\"]\n",
                  data.path().string()));
  Swarm swarm(3, config);
  swarm.start_all();
  std::vector<std::size_t> others;
  for (std::size_t number = 0; number < 3; ++number) {
    const Ending ending = swarm.wait_for_end(number, 100s);
    INFO(swarm.output(number));
    CHECK(ending.signal == 0);
    const bool told = swarm.output(number).find("not finite") != std::string::npos;
    CHECK(ending.exit_code == (told ? 1 : 0));
    CHECK(swarm.events(number, "gradient_not_finite").size() == (told ? 1 : 0));
    if (!told) others.push_back(number);
  }
  REQUIRE(others.size() == 2);
  for (const std::size_t number : others) CHECK(swarm.events(number, "budget_done").size() == 1);
}

// A watched peer ends itself exactly at the point that docs/faults.md names. If the point belongs
// to an agreement, another peer is killed first.
TEST_CASE("a death at any point of lockstep leaves the others with one result", "[process]") {
  WatchedSwarm swarm(5, lockstep(100000000, round_the_ring));
  for (const std::string& point : lockstep_points) {
    for (const char* when : {"before", "after"}) {
      INFO(point << ", " << when);
      swarm.put_point(point, when, SIGKILL, is_of_agreement(point) ? 0 : 7);
      if (is_of_agreement(point)) swarm.kill(swarm.next_victim());
      const std::size_t deaths = is_of_agreement(point) ? 2 : 1;
      REQUIRE(eventually([&] { return swarm.reached() && swarm.have_died(deaths); }, 30s));
      REQUIRE(swarm.works_again(60s));
      swarm.bring_all_back();
      REQUIRE(swarm.works_again(60s));
    }
  }
  CHECK(swarm.sums_differ() == "");
  CHECK(swarm.operations() > 100);
}

TEST_CASE("one that stands still at any point of lockstep is told what it missed", "[process]") {
  WatchedSwarm swarm(4, lockstep(100000000, round_the_ring));
  for (const std::string point : {"r2", "r3", "r6"}) {
    INFO(point);
    swarm.put_point(point, "after", SIGSTOP, is_of_agreement(point) ? 0 : 7);
    const std::size_t adopted = swarm.states_adopted();
    if (is_of_agreement(point)) swarm.kill(swarm.next_victim());
    REQUIRE(eventually([&] { return swarm.reached() && swarm.somebody_stands_still(); }, 30s));
    REQUIRE(swarm.works_again(60s));
    swarm.wake_all();
    swarm.bring_all_back();
    REQUIRE(swarm.works_again(60s));
    CHECK(swarm.states_adopted() >= adopted + (is_of_agreement(point) ? 2 : 1));
  }
  CHECK(swarm.sums_differ() == "");
}

// Run these by hand: `test_process "[kills]" -s` and `"[stops]"` print the cost of a death or a
// standstill, from the signal to the first result of all survivors. They assert nothing, because
// the figures depend on the machine.
TEST_CASE("two hundred deaths in lockstep", "[.][kills]") {
  WatchedSwarm swarm(8, lockstep(100000000, round_the_ring, ten_megabytes));
  std::vector<double> all;
  const auto began = Clock::now();
  for (std::size_t round = 0; round < 200; ++round) {
    // Every other death is at an exact point. The other deaths are at random moments.
    const std::string& point = lockstep_points[round / 2 % lockstep_points.size()];
    INFO("death " << round << " at " << (round % 2 == 0 ? point : "any moment"));
    if (round % 2 == 0) {
      swarm.put_point(point, round % 4 == 0 ? "before" : "after", SIGKILL,
                      is_of_agreement(point) ? 0 : 3);
    }
    if (round % 2 == 1 || is_of_agreement(point)) swarm.kill(swarm.next_victim());
    const std::size_t deaths = round % 2 == 0 && is_of_agreement(point) ? 2 : 1;
    REQUIRE(eventually([&] { return swarm.reached() && swarm.have_died(deaths); }, 60s));
    const auto died = Clock::now();
    REQUIRE(swarm.works_again(60s));
    all.push_back(seconds_since(died));
    swarm.bring_all_back();
    REQUIRE(swarm.works_again(60s));
  }
  CHECK(swarm.sums_differ() == "");
  const double minutes = seconds_since(began) / 60;
  WARN(figures("deaths", all) + fmt::format("; {:.1f} a minute, {} operations, {} sums compared",
                                            200 / minutes, swarm.operations(), swarm.sums()));
}

TEST_CASE("sixty standstills in lockstep", "[.][stops]") {
  WatchedSwarm swarm(8, lockstep(100000000, round_the_ring, ten_megabytes));
  std::vector<double> stops;
  std::vector<double> wakings;
  for (std::size_t round = 0; round < 60; ++round) {
    const std::size_t victim = swarm.next_victim();
    const std::size_t adopted = swarm.states_adopted();
    swarm.stop(victim);
    const auto stopped = Clock::now();
    REQUIRE(swarm.works_again(60s));
    stops.push_back(seconds_since(stopped));
    swarm.wake_all();
    const auto woken = Clock::now();
    REQUIRE(swarm.works_again(60s));
    wakings.push_back(seconds_since(woken));
    CHECK(swarm.states_adopted() > adopted);
  }
  CHECK(swarm.sums_differ() == "");
  WARN(fmt::format("{}; {}; {} sums compared", figures("standstills", stops),
                   figures("wakings", wakings), swarm.sums()));
}

}  // namespace gv
