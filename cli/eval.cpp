// `grapevine eval`: computes how good a checkpoint is on its run's test data.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/routing.hpp"
#include "peer/config/refusal.hpp"
#include "peer/config/task.hpp"
#include "peer/host/evaluate.hpp"
#include "train/checkpoint/checkpoint.hpp"
#include "train/evaluation.hpp"
#include "train/formats/model_file.hpp"
#include "train/model.hpp"
#include "train/sharpness.hpp"

namespace gv {
namespace {

struct EvaluateOptions {
  std::vector<std::string> files;
  /// The file with the machines' cluster centres; empty means that there is only one model.
  std::string route;
  std::string config;   ///< Empty means the settings stored in the checkpoint.
  std::string outputs;  ///< The file for the model's outputs; empty means none.
  bool sharpness = false;
  std::size_t samples = 1000;  ///< Number of test samples for computing the sharpness.
};

/// Prints the Hessian's eigenvalue of largest magnitude at the model.
void print_sharpness(const EvaluateOptions& options, const TestSet& test,
                     std::span<const float> parameters) {
  Model model(without_dropout(test.model), test.data->shape, evaluation_batch(*test.data));
  const std::optional<Sharpness> found = sharpness(gradient_on(model, *test.data, options.samples),
                                                   parameters, Rng(1).fork("sharpness"));
  if (!found) {
    fmt::print("sharpness unknown: gradients are too coarse here to tell how they change\n");
    return;
  }
  const std::size_t samples = std::min(options.samples, test.data->size());
  fmt::print(
      "sharpness {:.4g}, residual {:.2g}, after {} products with the Hessian{}, on {} test {}\n",
      found->eigenvalue, found->residual, found->iterations,
      found->has_settled ? "" : " (not settled)", samples, samples == 1 ? "sample" : "samples");
}

/// Evaluates machines that were each trained on one cluster, and prints their joint score. Returns
/// the exit code.
int evaluate_routed(const EvaluateOptions& options, const TestSet& test) {
  const RoutedScore routed = routed_score(options.route, options.files, test);
  if (!routed.problems.empty()) return fail(routed.problems);
  fmt::print("{}\n", to_text(routed.score, *test.data));
  return 0;
}

/// Evaluates one or more checkpoints. Prints the loss and either the accuracy or R2. Returns the
/// exit code.
int evaluate(const EvaluateOptions& options) {
  const auto first = std::ranges::find_if_not(options.files, is_lost);
  if (first == options.files.end() || (options.route.empty() && options.files.size() > 1)) {
    return fail({{options.files.back(), "there is nothing to choose one of several models by",
                  "name one model, or the centres with --route"}});
  }
  const std::string file = model_file_at(*first);
  const ParsedConfig parsed = stored_config(file, options.config).parsed;
  if (!parsed.problems.empty()) return fail(parsed.problems);
  if (options.sharpness && parsed.config.model.weights == WeightValues::ternary) {
    return fail({{"--sharpness",
                  "the loss of ternary weights jumps where a weight takes another value, so it has "
                  "no Hessian",
                  "leave --sharpness out"}});
  }
  const std::vector<std::filesystem::path> models = {file};
  const TestSet test = load_test_set(parsed.config, classes_in(parsed.config, models));
  if (!test.problems.empty()) return fail(test.problems);
  if (!options.route.empty()) return evaluate_routed(options, test);
  Model model(test.model, test.data->shape, evaluation_batch(*test.data));
  const LoadedParameters loaded = load_parameters(file, model.layout());
  if (!loaded.problem.empty()) {
    return fail({{file, loaded.problem, "evaluate it with the config it was trained with"}});
  }
  if (!options.outputs.empty()) {
    const std::vector<float> outputs = outputs_on(model, loaded.parameters, *test.data);
    const Problems problems = write_model_file(
        options.outputs, {{"outputs", {test.data->size(), model.outputs()}, outputs}}, {},
        NumberType::f32);
    if (!problems.empty()) return fail(problems);
  }
  fmt::print("{}\n", to_text(evaluate(model, loaded.parameters, *test.data), *test.data));
  if (options.sharpness) print_sharpness(options, test, loaded.parameters);
  return 0;
}

}  // namespace

void add_eval(CLI::App& app) {
  const auto options = std::make_shared<EvaluateOptions>();
  auto* command = app.add_subcommand("eval", "Print the accuracy or R2 of a checkpoint");
  command
      ->add_option("FILE", options->files,
                   "A step-*.safetensors or mean.safetensors file, or the folder of a peer; with "
                   "--route one for each centre, or - for one that is lost")
      ->required();
  command->add_option("--config", options->config,
                      "Evaluate on this config's test data instead of the checkpoint's own");
  command->add_option("--outputs", options->outputs,
                      "Also write the model's outputs for each test sample into this file: .npy, "
                      ".npz, .pt or .safetensors");
  auto* route = command->add_option(
      "--route", options->route,
      "Send each test sample to the model of the nearest centre in this file of a k-means");
  auto* sharp = command->add_flag(
      "--sharpness", options->sharpness,
      "Print the eigenvalue of the largest magnitude of the Hessian of the test loss, by power "
      "iteration");
  command
      ->add_option("--samples", options->samples,
                   "Compute the sharpness on this number of test samples (default 1000)")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1'000'000'000}))
      ->needs(sharp);
  route->excludes(sharp)->excludes("--outputs");
  command->footer(
      "Examples:\n  grapevine eval runs/run-001/mean.safetensors\n"
      "  grapevine eval --route runs/centres/mean.safetensors runs/run-001/peer-*");
  command->callback([options] { exit_with(evaluate(*options)); });
}

}  // namespace gv
