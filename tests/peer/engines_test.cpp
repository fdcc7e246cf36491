// A peer's place in a cohort, as read from the environment variables of engines.
#include "peer/host/engines.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <optional>
#include <string>

namespace gv {
namespace {

using Environment = std::map<std::string, std::string, std::less<>>;

std::vector<EngineReading> readings_of(const Environment& environment) {
  return read_engines([&](std::string_view name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    if (found == environment.end()) return std::nullopt;
    return found->second;
  });
}

/// The place that was found, as "ENGINE R/N", or the text of the first problem.
std::string found_in(const Environment& environment, std::optional<std::size_t> rank = {},
                     std::optional<std::size_t> ranks = {}) {
  const std::vector<EngineReading> readings = readings_of(environment);
  CohortPlace place;
  const Problems problems = find_place(readings, rank, ranks, place);
  if (!problems.empty()) return to_string(problems.front());
  const EngineReading* counts = chosen(readings);
  const std::string engine = rank && ranks ? "given" : counts->engine;
  return engine + " " + std::to_string(place.rank) + "/" + std::to_string(place.ranks);
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// The variables that sbatch --array=0-15 sets for its element 3, which runs one task.
const Environment array_element = {{"SLURM_ARRAY_TASK_ID", "3"},   {"SLURM_ARRAY_TASK_MIN", "0"},
                                   {"SLURM_ARRAY_TASK_MAX", "15"}, {"SLURM_ARRAY_TASK_COUNT", "16"},
                                   {"SLURM_PROCID", "0"},          {"SLURM_NTASKS", "1"}};

Environment with(Environment environment, const Environment& more) {
  for (const auto& [name, value] : more) environment[name] = value;
  return environment;
}

}  // namespace

TEST_CASE("each engine of the table gives rank and number of ranks", "[unit]") {
  CHECK(found_in({{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}}) == "Slurm 1/2");
  CHECK(found_in(array_element) == "Slurm array job 3/16");
  CHECK(found_in({{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}}) == "Open MPI 2/4");
  CHECK(found_in({{"PMI_RANK", "0"}, {"PMI_SIZE", "3"}}) == "MPICH 0/3");
  CHECK(found_in({{"RANK", "7"}, {"WORLD_SIZE", "8"}}) == "torchrun 7/8");
  CHECK(found_in({{"JOB_COMPLETION_INDEX", "2"}}, {}, 5) == "Kubernetes indexed Job 2/5");
  CHECK(found_in({{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}, {"HOSTNAME", "grape-vine-4"}}, {}, 5) ==
        "Kubernetes StatefulSet 4/5");
}

TEST_CASE("torchrun also gives the host of the first rank", "[unit]") {
  const std::vector<EngineReading> readings =
      readings_of({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "node7"}});
  CohortPlace place;
  REQUIRE(find_place(readings, {}, {}, place).empty());
  CHECK(place.host == "node7");
}

TEST_CASE("an engine inside another one's job counts and a single process gives way", "[unit]") {
  const Environment batch = {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}};
  CHECK(found_in(with(batch, {{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}})) ==
        "Open MPI 2/4");
  // This is srun --mpi=pmi2 within an element of an array.
  CHECK(found_in(with(array_element, {{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}})) ==
        "Slurm array job 3/16");
  CHECK(found_in({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}}) == "Slurm 0/1");
}

TEST_CASE("an array may begin anywhere and have a step but no gaps", "[unit]") {
  CHECK(found_in(with(array_element, {{"SLURM_ARRAY_TASK_ID", "5"},
                                      {"SLURM_ARRAY_TASK_MIN", "5"},
                                      {"SLURM_ARRAY_TASK_MAX", "8"},
                                      {"SLURM_ARRAY_TASK_COUNT", "4"}})) == "Slurm array job 0/4");
  CHECK(found_in(with(array_element, {{"SLURM_ARRAY_TASK_ID", "9"},
                                      {"SLURM_ARRAY_TASK_MIN", "1"},
                                      {"SLURM_ARRAY_TASK_MAX", "9"},
                                      {"SLURM_ARRAY_TASK_STEP", "4"},
                                      {"SLURM_ARRAY_TASK_COUNT", "3"}})) == "Slurm array job 2/3");
  const Environment gaps = with(array_element, {{"SLURM_ARRAY_TASK_COUNT", "9"}});
  CHECK(says(found_in(gaps), "not evenly spaced"));
  CHECK(found_in(gaps, 3, 16) == "given 3/16");
}

TEST_CASE("several tasks in an element of an array would have one rank and are refused", "[unit]") {
  const std::string found = found_in(with(array_element, {{"SLURM_NTASKS", "4"}}));
  CHECK(says(found, "SLURM_NTASKS: 4 tasks would all have rank 3"));
  CHECK(says(found, "--rank R --ranks N"));
}

TEST_CASE("what is missing or wrong is said with its remedy", "[unit]") {
  CHECK(says(found_in({}), "--rank: the environment does not say which rank"));
  CHECK(says(found_in({}), "grapevine env"));
  CHECK(says(found_in({}, 3), "--ranks: this peer is rank 3"));
  CHECK(says(found_in({{"JOB_COMPLETION_INDEX", "2"}}),
             "rank 2, and Kubernetes indexed Job does not say of how many"));
  CHECK(says(found_in({{"SLURM_PROCID", "-1"}, {"SLURM_NTASKS", "2"}}),
             "SLURM_PROCID: '-1' is no number"));
  CHECK(says(found_in({}, 4, 4), "there is no rank 4 among 4; ranks count from 0 to 3"));
  CHECK(says(found_in({}, 0, 0), "from 1 to 4096 ranks, not 0"));
  CHECK(says(found_in({}, 0, 4097), "from 1 to 4096 ranks, not 4097"));
  CHECK(found_in({}, 4095, 4096) == "given 4095/4096");
  // A host name that ends in a number does not by itself indicate Kubernetes.
  CHECK(readings_of({{"HOSTNAME", "node-7"}}).empty());
  CHECK(readings_of({{"HOSTNAME", "laptop"}, {"KUBERNETES_SERVICE_HOST", "10.0.0.1"}}).empty());
}

TEST_CASE("a reading lists the variables that it used and those that are not set", "[unit]") {
  const std::vector<EngineReading> readings =
      readings_of({{"RANK", "1"}, {"WORLD_SIZE", "2\n\x1b[2J"}});
  REQUIRE(readings.size() == 1);
  CHECK(readings[0].variables[0] == std::pair<std::string, std::string>("RANK", "1"));
  CHECK(readings[0].variables[1].second.find('\x1b') == std::string::npos);
  CHECK(readings[0].unset == std::vector<std::string>{"MASTER_ADDR"});
  REQUIRE(readings[0].problems.size() == 1);
  CHECK(readings[0].problems[0].place == "WORLD_SIZE");
}

}  // namespace gv
