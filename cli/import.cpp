// `grapevine import`: turns a PyTorch or NumPy file into a Grapevine model.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/printable.hpp"
#include "cli/commands.hpp"
#include "peer/config/refusal.hpp"
#include "peer/config/task.hpp"
#include "peer/host/run_format.hpp"
#include "train/checkpoint/safetensors.hpp"
#include "train/evaluation.hpp"
#include "train/formats/gpt2.hpp"
#include "train/formats/layout_fit.hpp"
#include "train/formats/model_file.hpp"
#include "train/model.hpp"

namespace gv {
namespace {

struct ImportOptions {
  std::string file;
  std::string out = "model.safetensors";
  std::string config;  ///< Empty: the tensors keep their names and need not belong to a known
                       ///< model.
  std::string prefix;
  std::vector<std::string> start;  ///< Folders of the peers that are to start from the model.
};

/// Keeps the tensors whose names begin with the prefix, and removes the prefix.
void keep_prefix(const std::string& prefix, ModelContents& model) {
  if (prefix.empty()) return;
  std::erase_if(model.tensors,
                [&](const Tensor& tensor) { return !tensor.name.starts_with(prefix); });
  std::erase_if(model.left_out, [&](const std::string& name) { return !name.starts_with(prefix); });
  for (Tensor& tensor : model.tensors) tensor.name.erase(0, prefix.size());
}

/// Prints the number of tensors and elements, their types, and the names of omitted entries.
void describe(const std::string& file, const ModelContents& model) {
  std::size_t numbers = 0;
  std::map<std::string_view, std::size_t> types;
  for (const Tensor& tensor : model.tensors) {
    numbers += tensor.values.size();
    ++types[to_string(tensor.type)];
  }
  std::string text =
      fmt::format("{}: {} tensors with {} numbers", file, model.tensors.size(), numbers);
  for (const auto& [type, count] : types) {
    if (type != to_string(NumberType::f32)) text += fmt::format(", {} of them {}", count, type);
  }
  fmt::print("{}\n", text);
  if (model.left_out.empty()) return;
  constexpr std::size_t shown = 5;
  text = fmt::format("not tensors, and left out: {}", printable(model.left_out.front(), 100));
  for (std::size_t i = 1; i < std::min(shown, model.left_out.size()); ++i) {
    text += ", " + printable(model.left_out[i], 100);
  }
  if (model.left_out.size() > shown)
    text += fmt::format(" and {} more", model.left_out.size() - shown);
  fmt::print("{}\n", text);
}

/// The problems of tensors that are to be written under their own names.
Problems problems_of_names(const std::string& file, const std::vector<Tensor>& tensors) {
  std::set<std::string> names;
  for (const Tensor& tensor : tensors) {
    const bool is_usable = !tensor.name.empty() && tensor.name != "__metadata__";
    if (is_usable && names.insert(tensor.name).second) continue;
    return {{file, fmt::format("a tensor is called '{}', or two are", printable(tensor.name, 200)),
             "give each tensor a name of its own"}};
  }
  return {};
}

/// The reasons why peers of this config cannot start from a model in these folders.
Problems problems_of_start(const ImportOptions& options, const Config& config) {
  Problems problems;
  if (options.start.empty()) return problems;
  if (config.run.mode == ModeKind::pipeline || config.population.is_on()) {
    problems.push_back({"--start", "only whole models that all begin alike can be given to peers",
                        "name a config without a pipeline and without [population]"});
  }
  if (options.start.size() > config.run.peers) {
    problems.push_back({"--start", fmt::format("the run has {} peers", config.run.peers),
                        "name fewer folders, or set run.peers"});
  }
  for (const std::string& folder : options.start) {
    if (checkpoints_of(folder).empty()) continue;
    problems.push_back({folder, "it has checkpoints already",
                        "name a folder that is new, or remove its checkpoints if an import that "
                        "was interrupted has left them"});
  }
  if (!problems.empty()) return problems;
  // All folders are made before anything is written, so that the user can correct the command and
  // repeat it.
  std::set<std::filesystem::path> made;
  for (const std::string& folder : options.start) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    const std::filesystem::path place =
        error ? std::filesystem::path() : std::filesystem::canonical(folder, error);
    if (error) {
      problems.push_back({folder, error.message(), "name a folder that can be written to"});
    } else if (!made.insert(place).second) {
      problems.push_back({folder, "it is named twice", "name a folder for each peer"});
    }
  }
  return problems;
}

/// Writes a checkpoint of step 0 into the folder of a peer, which starts from it when it resumes.
Problems begin_peer(const ImportOptions& options, const Config& config,
                    std::span<const float> parameters, std::size_t peer) {
  const Task task = load_task(config, peer);
  if (!task.problems.empty()) return task.problems;
  std::unique_ptr<Learner> learner = learner_of(task);
  if (learner->parameters().size() != parameters.size()) {
    return {{options.file,
             fmt::format("it has {} numbers, and the model that is trained on the config's data "
                         "has {}",
                         parameters.size(), learner->parameters().size()),
             "the model and the training data must have as many classes"}};
  }
  learner->adopt(parameters, 0);
  const auto replica = first_replica(task, peer, std::move(learner));
  const std::filesystem::path folder = options.start[peer];
  const std::string remedy = "make room there, or name a folder that can be written to";
  // No peer can resume from checkpoints without this mark, so the mark comes first.
  if (Problems problems = write_run_format(folder); !problems.empty()) {
    problems.front().remedy = remedy;
    return problems;
  }
  const std::string problem =
      save_replica(folder / "checkpoints", *replica, config, read_config_text(options.config));
  if (!problem.empty()) return {{folder.string(), problem, remedy}};
  return {};
}

/// Removes the checkpoint of step 0 from a folder that had no checkpoints before this command.
void remove_checkpoint(const std::filesystem::path& folder) {
  const std::filesystem::path checkpoints = folder / "checkpoints";
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(checkpoints, ignored)) {
    if (!entry.path().filename().string().starts_with("step-0000000000.")) continue;
    std::filesystem::remove(entry.path(), ignored);
  }
  ::rmdir(checkpoints.c_str());  // Unlike std::filesystem::remove(), this removes only a folder.
}

/// Writes a checkpoint of step 0 into each folder, or leaves none in any of them, so that the user
/// can repeat the command.
Problems begin_peers(const ImportOptions& options, const Config& config,
                     std::span<const float> parameters) {
  for (std::size_t peer = 0; peer < options.start.size(); ++peer) {
    Problems problems = begin_peer(options, config, parameters, peer);
    if (problems.empty()) continue;
    for (std::size_t i = 0; i <= peer; ++i) remove_checkpoint(options.start[i]);
    return problems;
  }
  for (const std::string& folder : options.start) fmt::print("start        {}\n", folder);
  return {};
}

/// Gives the tensors of a Hugging Face GPT-2 the names that the built-in transformer (as in
/// `model`, if given) uses. Leaves other models unchanged. Returns the reason if the tensors of a
/// GPT-2 cannot be renamed.
Problems rename_gpt2(const ImportOptions& options, const Model* model, ModelContents& read) {
  if (!is_gpt2(read.tensors)) return {};
  RenamedTensors renamed =
      from_gpt2(std::move(read.tensors), model != nullptr ? use_in(model->layout()) : Gpt2Use{});
  if (!renamed.reason.empty()) return {{options.file, renamed.reason, renamed.remedy}};
  read.tensors = std::move(renamed.tensors);
  fmt::print("it is a GPT-2, and becomes a transformer of Grapevine\n");
  return {};
}

/// Writes the tensors as the parameters of the config's model. Returns the exit code.
int import_as_model(const ImportOptions& options, ModelContents& read) {
  const ParsedConfig parsed = parse_config_file(options.config);
  if (!parsed.problems.empty()) return fail(parsed.problems);
  Problems problems = problems_of_start(options, parsed.config);
  if (!problems.empty()) return fail(problems);
  const TestSet test = load_test_set(parsed.config, classes_in(parsed.config, read.tensors));
  if (!test.problems.empty()) return fail(test.problems);
  const Model model(test.model, test.data->shape, evaluation_batch(*test.data));
  problems = rename_gpt2(options, &model, read);
  if (!problems.empty()) return fail(problems);
  const LayoutFit fit = fit_to(model.layout(), read.tensors);
  if (!fit.problem.empty()) {
    return fail({{options.file, fit.problem,
                  "the config's layers must be those of the file, in its order; --prefix takes a "
                  "part of the file"}});
  }
  for (const auto& [from, to] : fit.names) {
    if (from != to) fmt::print("{} becomes {}\n", printable(from, 200), to);
  }
  const std::string problem =
      write_model(options.out, model.layout(), fit.parameters,
                  run_metadata(parsed.config, read_config_text(options.config)));
  if (!problem.empty()) {
    return fail({{options.out, problem, "name a file in a folder that can be written to"}});
  }
  fmt::print("model        {}\n", options.out);
  problems = begin_peers(options, parsed.config, fit.parameters);
  return problems.empty() ? 0 : fail(problems);
}

/// Imports the file. Returns the exit code.
int import_file(const ImportOptions& options) {
  if (!options.out.ends_with(".safetensors")) {
    return fail({{options.out, "it is no name of a safetensors file",
                  "write --out NAME.safetensors; `grapevine export` writes other formats"}});
  }
  std::error_code is_no_file;
  if (std::filesystem::equivalent(options.file, options.out, is_no_file)) {
    return fail({{options.out, "it is the file that is to be read, and would be replaced",
                  "write --out and another name"}});
  }
  ModelContents read = read_model_file(options.file);
  if (!read.reason.empty()) return fail({{options.file, read.reason, read.remedy}});
  keep_prefix(options.prefix, read);
  if (read.tensors.empty()) {
    return fail({{options.file, fmt::format("no tensor's name begins with '{}'", options.prefix),
                  "leave --prefix out to see what there is"}});
  }
  describe(options.file, read);
  if (!options.config.empty()) return import_as_model(options, read);
  Problems problems = rename_gpt2(options, nullptr, read);
  if (problems.empty()) problems = problems_of_names(options.file, read.tensors);
  std::vector<TensorView> views;
  for (const Tensor& tensor : read.tensors) {
    views.push_back({tensor.name, tensor.shape, tensor.values});
  }
  if (problems.empty()) {
    problems = write_model_file(options.out, views, read.metadata, NumberType::f32);
  }
  if (!problems.empty()) return fail(problems);
  fmt::print("model        {}\n", options.out);
  return 0;
}

}  // namespace

void add_import(CLI::App& app) {
  const auto options = std::make_shared<ImportOptions>();
  auto* command = app.add_subcommand("import", "Read a model of PyTorch or NumPy");
  command
      ->add_option("FILE", options->file,
                   "A state dict of PyTorch (.pt, .pth, .bin), arrays of NumPy (.npz, .npy) or "
                   "another .safetensors file; nothing in it is executed")
      ->required();
  command->add_option("--out", options->out, "The safetensors file to write")
      ->capture_default_str();
  auto* config =
      command->add_option("--config", options->config,
                          "Check that it is this config's model, and name its tensors so; then "
                          "`grapevine eval` reads it");
  command
      ->add_option("--start", options->start,
                   "Folders of peers that are to begin with it, one for each: `grapevine peer "
                   "--folder FOLDER --resume`, or RUN/peer-0 and so on for `grapevine launch "
                   "--folder RUN --resume`")
      ->needs(config);
  command->add_option("--prefix", options->prefix,
                      "Only tensors whose names begin so, as \"model.\", which is taken off");
  command->footer("Example:\n  grapevine import model.pt --config configs/fashion-mlp.toml");
  command->callback([options] { exit_with(import_file(*options)); });
}

}  // namespace gv
