// Loads a checkpoint, finds its run's settings in it, and evaluates it.
#include "peer/evaluate.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "peer/config.hpp"
#include "peer/task.hpp"
#include "train/checkpoint/checkpoint.hpp"
#include "train/checkpoint/safetensors.hpp"

namespace gv {
namespace {

int fail(const Problems& problems) {
  for (const Problem& problem : problems) fmt::print(stderr, "{}\n", to_string(problem));
  return 2;
}

}  // namespace

int evaluate_command(const EvaluateOptions& options) {
  const LoadedTensors file = read_safetensors(options.file);
  if (!file.problem.empty()) {
    return fail(
        {{options.file, file.problem, "give a step-*.safetensors or mean.safetensors file"}});
  }
  ParsedConfig parsed;
  if (!options.config.empty()) {
    parsed = parse_config_file(options.config);
  } else if (const auto text = file.metadata.find("config");
             text != file.metadata.end() && !text->second.empty()) {
    // Relative folders were meant from where the run's config file was.
    const auto folder = file.metadata.find("data_folder");
    parsed = parse_config_text(text->second, options.file + " (config inside)",
                               folder != file.metadata.end() ? folder->second : std::string());
  } else {
    return fail({{options.file, "it does not say which model and data it is of",
                  "name the run's config with --config"}});
  }
  if (!parsed.problems.empty()) return fail(parsed.problems);
  const TestSet test = load_test_set(parsed.config);
  if (!test.problems.empty()) return fail(test.problems);
  Model model(test.model, test.data->shape, evaluation_batch(*test.data));
  const LoadedParameters loaded = load_parameters(options.file, model.layout());
  if (!loaded.problem.empty()) {
    return fail(
        {{options.file, loaded.problem, "evaluate it with the config it was trained with"}});
  }
  const Score score = evaluate(model, loaded.parameters, *test.data);
  if (test.data->classes > 0) {
    fmt::print("accuracy {:.2f} %  loss {:.4f}{}  on {} test samples\n", 100 * score.accuracy(),
               score.mean_loss(), uncertainty(score, *test.data), score.samples);
  } else {
    fmt::print("loss {:.6g}  on {} test samples\n", score.mean_loss(), score.samples);
  }
  return 0;
}

}  // namespace gv
