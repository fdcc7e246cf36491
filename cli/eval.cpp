// `grapevine eval`: computes how good a checkpoint is on its run's test data.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "peer/config/refusal.hpp"
#include "peer/config/task.hpp"
#include "peer/host/evaluate.hpp"
#include "train/checkpoint/checkpoint.hpp"
#include "train/evaluation.hpp"
#include "train/formats/model_file.hpp"
#include "train/model.hpp"

namespace gv {
namespace {

struct EvaluateOptions {
  std::string file;
  std::string config;   ///< Empty means the settings stored in the checkpoint.
  std::string outputs;  ///< The file for the outputs; empty means none.
};

/// Evaluates the checkpoint and prints its loss, and its accuracy or R2. Returns the exit code.
int evaluate(const EvaluateOptions& options) {
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
  if (!options.outputs.empty()) {
    const std::vector<float> outputs = outputs_on(model, loaded.parameters, *test.data);
    const Problems problems = write_model_file(
        options.outputs, {{"outputs", {test.data->size(), model.outputs()}, outputs}}, {},
        NumberType::f32);
    if (!problems.empty()) return fail(problems);
  }
  fmt::print("{}\n", to_text(evaluate(model, loaded.parameters, *test.data), *test.data));
  return 0;
}

}  // namespace

void add_eval(CLI::App& app) {
  const auto options = std::make_shared<EvaluateOptions>();
  auto* command = app.add_subcommand("eval", "Print the accuracy or R2 of a checkpoint");
  command->add_option("FILE", options->file, "A step-*.safetensors or mean.safetensors file")
      ->required();
  command->add_option("--config", options->config,
                      "Evaluate on this config's test data instead of the checkpoint's own");
  command->add_option("--outputs", options->outputs,
                      "Also write the model's outputs for each test sample into this file: .npy, "
                      ".npz, .pt or .safetensors");
  command->footer("Example:\n  grapevine eval runs/run-001/mean.safetensors");
  command->callback([options] { exit_with(evaluate(*options)); });
}

}  // namespace gv
