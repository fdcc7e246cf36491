// The table of engines, and the reading of an engine's variables.
#include "peer/host/engines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/printable.hpp"
#include "peer/config/config.hpp"

namespace gv {
namespace {

constexpr std::size_t shown_bytes = 80;  ///< Bytes of a variable's value that messages show.
constexpr std::string_view by_hand = "pass --rank R --ranks N";

std::optional<std::size_t> number_in(std::string_view text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// Reads the variables of one engine.
class RowReader {
 public:
  RowReader(const Engine& engine, const Variables& variables)
      : engine_(engine), variables_(variables) {
    reading_.engine = engine.name;
  }

  /// Returns nullopt if this engine did not start the process.
  std::optional<EngineReading> read();

 private:
  std::optional<std::string> text(std::string_view variable);
  std::optional<std::size_t> number(std::string_view variable);
  std::optional<std::size_t> number_at_end(std::string_view variable);
  void count_from_first(std::size_t value);
  void problem(std::string_view variable, std::string reason, std::string remedy) {
    reading_.problems.push_back({std::string(variable), std::move(reason), std::move(remedy)});
  }

  const Engine& engine_;
  const Variables& variables_;
  EngineReading reading_;
};

std::optional<std::string> RowReader::text(std::string_view variable) {
  if (variable.empty()) return std::nullopt;
  std::optional<std::string> value = variables_(variable);
  if (value) {
    reading_.variables.emplace_back(variable, printable(*value, shown_bytes));
  } else {
    reading_.unset.emplace_back(variable);
  }
  return value;
}

std::optional<std::size_t> RowReader::number(std::string_view variable) {
  const std::optional<std::string> value = text(variable);
  if (!value) return std::nullopt;
  const std::optional<std::size_t> found = number_in(*value);
  if (!found) {
    problem(variable, fmt::format("'{}' is no number", printable(*value, shown_bytes)),
            std::string(by_hand));
  }
  return found;
}

std::optional<std::size_t> RowReader::number_at_end(std::string_view variable) {
  const std::optional<std::string> value = text(variable);
  const auto dash = value ? value->rfind('-') : std::string::npos;
  return dash == std::string::npos ? std::nullopt
                                   : number_in(std::string_view(*value).substr(dash + 1));
}

/// Turns an engine's own numbers, which may start anywhere and have gaps, into ranks from 0.
void RowReader::count_from_first(std::size_t value) {
  const std::optional<std::size_t> first = number(engine_.first), last = number(engine_.last);
  const std::size_t step = std::max<std::size_t>(1, number(engine_.step).value_or(1));
  if (!first || !last || value < *first || value > *last) return;
  const std::size_t count = (*last - *first) / step + 1;
  if ((value - *first) % step != 0 || reading_.ranks.value_or(count) != count) {
    problem(engine_.rank, "the numbers of the tasks are not evenly spaced, so they are no ranks",
            "number them from 0 on without gaps, or " + std::string(by_hand));
    return;
  }
  reading_.rank = (value - *first) / step;
  reading_.ranks = count;
}

std::optional<EngineReading> RowReader::read() {
  if (!engine_.needs.empty() && !variables_(engine_.needs)) return std::nullopt;
  if (!variables_(engine_.rank)) return std::nullopt;
  const std::optional<std::size_t> value =
      engine_.is_end_of_name ? number_at_end(engine_.rank) : number(engine_.rank);
  // A host name that does not end in a number does not show that the engine is used.
  if (!value && engine_.is_end_of_name) return std::nullopt;
  reading_.ranks = number(engine_.ranks);
  if (value && engine_.first.empty()) reading_.rank = value;
  if (value && !engine_.first.empty()) count_from_first(*value);
  reading_.host = text(engine_.host).value_or("");
  if (const auto alike = number(engine_.alike); alike && *alike != 1) {
    problem(engine_.alike,
            fmt::format("{} tasks would all have rank {}", *alike, reading_.rank.value_or(0)),
            "run one task in each element of the array, or " + std::string(by_hand));
  }
  return std::move(reading_);
}

}  // namespace

const std::vector<Engine>& engines() {
  static const std::vector<Engine> table = {
      {.name = "torchrun", .rank = "RANK", .ranks = "WORLD_SIZE", .host = "MASTER_ADDR"},
      {.name = "Open MPI", .rank = "OMPI_COMM_WORLD_RANK", .ranks = "OMPI_COMM_WORLD_SIZE"},
      {.name = "MPICH", .rank = "PMI_RANK", .ranks = "PMI_SIZE"},
      {.name = "Slurm array job",
       .rank = "SLURM_ARRAY_TASK_ID",
       .ranks = "SLURM_ARRAY_TASK_COUNT",
       .first = "SLURM_ARRAY_TASK_MIN",
       .last = "SLURM_ARRAY_TASK_MAX",
       .step = "SLURM_ARRAY_TASK_STEP",
       .alike = "SLURM_NTASKS"},
      {.name = "Slurm", .rank = "SLURM_PROCID", .ranks = "SLURM_NTASKS"},
      {.name = "Kubernetes indexed Job", .rank = "JOB_COMPLETION_INDEX"},
      {.name = "Kubernetes StatefulSet",
       .rank = "HOSTNAME",
       .is_end_of_name = true,
       .needs = "KUBERNETES_SERVICE_HOST"},
  };
  return table;
}

Variables own_variables() {
  return [](std::string_view name) -> std::optional<std::string> {
    const char* value = std::getenv(std::string(name).c_str());
    if (value == nullptr || *value == 0) return std::nullopt;
    return value;
  };
}

std::vector<EngineReading> read_engines(const Variables& variables) {
  std::vector<EngineReading> readings;
  for (const Engine& engine : engines()) {
    if (auto reading = RowReader(engine, variables).read()) readings.push_back(*std::move(reading));
  }
  return readings;
}

const EngineReading* chosen(const std::vector<EngineReading>& readings) {
  if (readings.empty()) return nullptr;
  const auto many = std::ranges::find_if(
      readings, [](const EngineReading& one) { return one.ranks.value_or(2) > 1; });
  return many == readings.end() ? &readings.front() : &*many;
}

Problems find_place(const std::vector<EngineReading>& readings, std::optional<std::size_t> rank,
                    std::optional<std::size_t> ranks, CohortPlace& place) {
  const EngineReading* reading = rank && ranks ? nullptr : chosen(readings);
  if (reading != nullptr) {
    if (!reading->problems.empty()) return reading->problems;
    if (!rank) rank = reading->rank;
    if (!ranks) ranks = reading->ranks;
    place.host = reading->host;
  }
  const std::string by = reading != nullptr ? reading->engine : "the environment";
  if (!rank) {
    return {{"--rank", by + " does not say which rank of the cohort this peer is",
             "start it with srun, sbatch --array, mpirun or torchrun, or pass --rank R --ranks N; "
             "`grapevine env` says what is recognised"}};
  }
  if (!ranks) {
    return {{"--ranks",
             fmt::format("this peer is rank {}, and {} does not say of how many", *rank, by),
             "pass --ranks N, the same at all peers"}};
  }
  if (*ranks == 0 || *ranks > run_peers_max) {
    return {{"--ranks",
             fmt::format("a cohort has from 1 to {} ranks, not {}", run_peers_max, *ranks),
             "pass --ranks N, the same at all peers"}};
  }
  if (*rank >= *ranks) {
    return {{"--rank", fmt::format("there is no rank {} among {}", *rank, *ranks),
             fmt::format("ranks count from 0 to {}: pass --rank R --ranks N", *ranks - 1)}};
  }
  place.rank = *rank;
  place.ranks = *ranks;
  return {};
}

}  // namespace gv
