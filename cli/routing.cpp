// Finds the nearest centre of each sample, and scores each machine on its samples.
#include "cli/routing.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "train/checkpoint/checkpoint.hpp"
#include "train/checkpoint/safetensors.hpp"
#include "train/data/centres.hpp"
#include "train/evaluation.hpp"
#include "train/model.hpp"

namespace gv {

std::string model_file_at(const std::string& name) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(name, ignored)) return name;
  const auto files = parameter_files(std::filesystem::path(name) / "checkpoints");
  std::string notes;
  for (const std::filesystem::path& file : files) {
    const std::string problem = read_safetensors(file).problem;
    if (problem.empty()) {
      fmt::print(stderr, "{}", notes);
      return file.string();
    }
    notes += fmt::format("note: {}: {}; an older checkpoint is used\n", file.string(), problem);
  }
  return files.empty() ? name : files.front().string();
}

RoutedScore routed_score(const std::string& centres_file, const std::vector<std::string>& machines,
                         const TestSet& test) {
  const auto [centres, unreadable] = read_centres(centres_file);
  if (!unreadable.empty()) {
    return {.score = {},
            .problems = {{centres_file, unreadable,
                          "name the mean.safetensors of a run whose only layer is clusters"}}};
  }
  if (centres.size() != machines.size() || centres.features != test.data->features()) {
    return {
        .score = {},
        .problems = {
            {centres_file,
             fmt::format("{} centres of {} numbers for {} models, and samples of {}",
                         centres.size(), centres.features, machines.size(), test.data->features()),
             "name the centres by which the samples were dealt out, and a model for each, or "
             "- for one that is lost"}}};
  }
  std::vector<bool> is_there;
  for (const std::string& machine : machines) is_there.push_back(!is_lost(machine));
  std::vector<std::vector<std::uint32_t>> routed(machines.size());
  std::vector<float> sample(centres.features);
  for (std::uint32_t n = 0; n < test.data->size(); ++n) {
    test.data->read(n, sample);
    routed[nearest(centres, sample, is_there)].push_back(n);
  }
  Model model(test.model, test.data->shape, evaluation_batch(*test.data));
  RoutedScore result;
  for (std::size_t i = 0; i < machines.size(); ++i) {
    if (routed[i].empty()) continue;
    const std::string file = model_file_at(machines[i]);
    const LoadedParameters machine = load_parameters(file, model.layout());
    if (!machine.problem.empty()) {
      result.problems.push_back({file, machine.problem, "name models of the same config"});
      continue;
    }
    result.score += evaluate(model, machine.parameters, test.data->subset(routed[i]));
  }
  return result;
}

}  // namespace gv
