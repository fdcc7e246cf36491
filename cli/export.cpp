// `grapevine export`: writes a model for PyTorch, NumPy or any other reader of safetensors.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "cli/commands.hpp"
#include "peer/config/config.hpp"
#include "peer/config/refusal.hpp"
#include "train/checkpoint/checkpoint.hpp"
#include "train/checkpoint/number_type.hpp"
#include "train/formats/gpt2.hpp"
#include "train/formats/model_file.hpp"
#include "train/layers/ternary.hpp"

namespace gv {
namespace {

struct ExportOptions {
  std::string from;
  std::string to;
  std::string type = "f32";
  std::string naming = "own";
  bool ternary = false;
};

/// The newest parameter file in a folder of checkpoints; empty if there is none.
std::filesystem::path newest_in(const std::filesystem::path& folder) {
  const std::vector<std::filesystem::path> files = parameter_files(folder);
  return files.empty() ? std::filesystem::path() : files.front();
}

/// The file of a run's model in the folder `from`: the last model, else the mean of all peers, else
/// the newest checkpoint. Empty if there is none. If `from` is a file, returns that file.
std::filesystem::path model_of(const std::filesystem::path& from) {
  if (!std::filesystem::is_directory(from)) return from;
  for (const char* name : {"final.safetensors", "mean.safetensors"}) {
    if (std::filesystem::exists(from / name)) return from / name;
  }
  return newest_in(from / "checkpoints");
}

/// True if the config in the file's metadata says that the model computes with floats.
bool computes_with_floats(const ModelContents& model) {
  const auto text = model.metadata.find("config");
  if (text == model.metadata.end()) return false;
  const ParsedConfig stored = parse_config_text(text->second, "config");
  return stored.problems.empty() && stored.config.model.weights == WeightValues::floats;
}

/// Makes the weight matrices ternary. Returns false if there are none.
bool make_matrices_ternary(std::vector<Tensor>& tensors) {
  bool found = false;
  for (Tensor& tensor : tensors) {
    if (!is_weight_matrix(tensor.name, tensor.shape)) continue;
    make_ternary(tensor.values, tensor.values);
    found = true;
  }
  return found;
}

/// Exports the model. Returns the exit code.
int export_model(const ExportOptions& options) {
  const std::filesystem::path file = model_of(options.from);
  if (file.empty()) {
    return fail({{options.from, "no model in it",
                  "name the folder of a run or of one of its peers, or a file; the stages of a "
                  "pipeline are put together by `grapevine merge`"}});
  }
  ModelContents model = read_model_file(file);
  if (!model.reason.empty()) return fail({{file.string(), model.reason, model.remedy}});
  if (options.ternary && computes_with_floats(model)) {
    return fail({{file.string(), "its config says that the model computes with floats",
                  "leave --ternary out, or train with model.weights = \"ternary\""}});
  }
  if (options.ternary && !make_matrices_ternary(model.tensors)) {
    return fail(
        {{file.string(), "no weight matrix of a built-in layer in it", "leave --ternary out"}});
  }
  if (options.naming == "gpt2") {
    RenamedTensors renamed = to_gpt2(std::move(model.tensors));
    if (!renamed.reason.empty()) return fail({{file.string(), renamed.reason, renamed.remedy}});
    model.tensors = std::move(renamed.tensors);
    if (model.tensors.back().name == "lm_head.bias") {
      fmt::print(
          "GPT-2 has no biases at its outputs. This model's are in lm_head.bias; a reader that "
          "passes them over has other outputs.\n");
    }
  }
  std::vector<TensorView> views;
  for (const Tensor& tensor : model.tensors) {
    views.push_back({tensor.name, tensor.shape, tensor.values});
  }
  const NumberType type =
      std::ranges::find(number_types, options.type, &NumberTypeFacts::name)->type;
  const Problems problems = write_model_file(options.to, views, model.metadata, type);
  if (!problems.empty()) return fail(problems);
  fmt::print("{}: {} tensors of {} written to {}\n", file.string(), views.size(), to_string(type),
             options.to);
  return 0;
}

}  // namespace

void add_export(CLI::App& app) {
  const auto options = std::make_shared<ExportOptions>();
  auto* command = app.add_subcommand("export", "Write a model for PyTorch or NumPy");
  command
      ->add_option("FROM", options->from,
                   "The folder of a run or of a peer, for its last model, or a file of a model")
      ->required();
  command
      ->add_option("--to", options->to,
                   "The file to write: .pt for torch.load, .npz or .npy for np.load, or "
                   ".safetensors")
      ->required();
  command->add_option("--type", options->type, "The type of the numbers, rounded to nearest even")
      ->capture_default_str()
      ->check(CLI::IsMember({"f32", "f16", "bf16"}));
  command->add_flag("--ternary", options->ternary,
                    "Write every matrix whose name ends in .weight or _gates as -a, 0 and a, with "
                    "which a model of weights = \"ternary\" computes");
  command
      ->add_option(
          "--naming", options->naming,
          "\"gpt2\": the names and shapes of GPT2LMHeadModel in Hugging Face's transformers, "
          "for a model of kind = \"transformer\"")
      ->capture_default_str()
      ->check(CLI::IsMember({"own", "gpt2"}));
  command->footer("Example:\n  grapevine export runs/run-001 --to model.pt --type bf16");
  command->callback([options] { exit_with(export_model(*options)); });
}

}  // namespace gv
