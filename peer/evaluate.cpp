// Loads a checkpoint, finds its run's settings in it, and evaluates it.
#include "peer/evaluate.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "peer/config.hpp"
#include "peer/refusal.hpp"
#include "peer/task.hpp"
#include "train/checkpoint/checkpoint.hpp"
#include "train/checkpoint/safetensors.hpp"

namespace gv {

StoredConfig stored_config(const std::string& file, const std::string& config) {
  if (!config.empty()) return {parse_config_file(config), read_config_text(config)};
  const LoadedTensors tensors = read_safetensors(file);
  StoredConfig stored;
  if (!tensors.problem.empty()) {
    stored.parsed.problems = {
        {file, tensors.problem, "give a step-*.safetensors or mean.safetensors file"}};
    return stored;
  }
  const auto text = tensors.metadata.find("config");
  if (text == tensors.metadata.end() || text->second.empty()) {
    stored.parsed.problems = {{file, "it does not say which model and data it is of",
                               "name the run's config with --config"}};
    return stored;
  }
  // Relative folders were meant from where the run's config file was.
  const auto folder = tensors.metadata.find("data_folder");
  stored.text = text->second;
  stored.parsed =
      parse_config_text(stored.text, file + " (config inside)",
                        folder != tensors.metadata.end() ? folder->second : std::string());
  return stored;
}

std::string to_text(const Score& score, const DataSet& data) {
  if (data.classes == 0) {
    return fmt::format("loss {:.6g}  on {} test samples", score.mean_loss(), score.samples);
  }
  return fmt::format("accuracy {:.2f} %  loss {:.4f}{}  on {} test samples", 100 * score.accuracy(),
                     score.mean_loss(), uncertainty(score, data), score.samples);
}

int evaluate_command(const EvaluateOptions& options) {
  const ParsedConfig parsed = stored_config(options.file, options.config).parsed;
  if (!parsed.problems.empty()) return fail(parsed.problems);
  const TestSet test = load_test_set(parsed.config);
  if (!test.problems.empty()) return fail(test.problems);
  Model model(test.model, test.data->shape, evaluation_batch(*test.data));
  const LoadedParameters loaded = load_parameters(options.file, model.layout());
  if (!loaded.problem.empty()) {
    return fail(
        {{options.file, loaded.problem, "evaluate it with the config it was trained with"}});
  }
  fmt::print("{}\n", to_text(evaluate(model, loaded.parameters, *test.data), *test.data));
  return 0;
}

}  // namespace gv
