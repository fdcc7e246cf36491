// `grapevine merge`: makes one model from the checkpoints of several peers.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.hpp"
#include "peer/config/refusal.hpp"
#include "peer/config/task.hpp"
#include "peer/host/evaluate.hpp"
#include "sim/local/whole_model.hpp"
#include "train/checkpoint/checkpoint.hpp"
#include "train/evaluation.hpp"
#include "train/model.hpp"

namespace gv {
namespace {

struct MergeOptions {
  std::vector<std::string> folders;  ///< The folders of the peers.
  std::string config;                ///< Empty means the settings stored in a checkpoint.
  std::string out = "model.safetensors";
};

/// The config in the file `config` or, if `config` is empty, the first valid config stored in one
/// of the files.
StoredConfig config_in(const std::vector<std::filesystem::path>& files, const std::string& config) {
  StoredConfig found = stored_config(files.front().string(), config);
  if (!config.empty()) return found;
  for (std::size_t i = 1; i < files.size() && !found.parsed.problems.empty(); ++i) {
    StoredConfig next = stored_config(files[i].string(), config);
    if (next.parsed.problems.empty()) found = std::move(next);
  }
  return found;
}

/// Prints one line about a peer's checkpoint.
void print_peer(const std::string& folder, const LastModel& peer) {
  if (peer.stages.empty()) {
    fmt::print("{}: step {}\n", folder, peer.step);
  } else {
    std::vector<std::string> stages;
    for (const auto& [stage, checkpoint] : peer.stages) {
      stages.push_back(fmt::format("{} at step {}", stage, checkpoint.optimizer.step));
    }
    fmt::print("{}: {} {}\n", folder, stages.size() == 1 ? "stage" : "stages",
               fmt::join(stages, ", "));
  }
}

/// Merges the models of the folders, writes the result and describes it. Returns the exit code.
int merge(const MergeOptions& options) {
  Problems problems;
  std::vector<std::filesystem::path> stored;
  std::vector<std::filesystem::path> all;
  std::set<std::filesystem::path> known;
  for (const std::string& folder : options.folders) {
    const std::vector<std::filesystem::path> files = checkpoints_of(folder);
    if (!known.insert(std::filesystem::weakly_canonical(folder)).second) {
      problems.push_back({folder, "named twice", "each peer counts once"});
    }
    if (files.empty()) {
      problems.push_back({folder, "no checkpoint below checkpoints/ in it",
                          "name the folder that the peer was given with --folder"});
    }
    if (stored.empty()) stored = files;
    all.insert(all.end(), files.begin(), files.end());
  }
  if (!problems.empty()) return fail(problems);
  const StoredConfig found = config_in(stored, options.config);
  if (!found.parsed.problems.empty()) return fail(found.parsed.problems);
  const Config& config = found.parsed.config;
  const TestSet test = load_test_set(config, classes_in(config, all));
  if (!test.problems.empty()) return fail(test.problems);
  Model model(test.model, test.data->shape, evaluation_batch(*test.data));
  const std::vector<SlicedStage> stages = sliced_stages_of(config, test);
  std::vector<LastModel> read;
  std::vector<const LastModel*> peers;
  for (const std::string& folder : options.folders) {
    read.push_back(read_last_model(folder, model.layout(), stages));
    if (!read.back().is_there()) {
      problems.push_back({folder, "no checkpoint of this model that can be read",
                          "leave it out, or name the run's config with --config"});
    }
  }
  if (!problems.empty()) return fail(problems);
  for (std::size_t i = 0; i < read.size(); ++i) print_peer(options.folders[i], read[i]);
  for (const LastModel& peer : read) peers.push_back(&peer);
  const WholeModel whole = whole_model(peers, stages);
  if (!whole.problem.empty()) {
    return fail({{"merge", whole.problem,
                  stages.empty() ? "was another model trained there? Name its config with --config"
                                 : "name the folders of all peers, and the run's config"}});
  }
  std::vector<std::uint64_t> steps = whole.steps;
  if (stages.empty()) std::ranges::transform(read, std::back_inserter(steps), &LastModel::step);
  if (const auto [first, last] = std::ranges::minmax_element(steps); *first != *last) {
    fmt::print("note: {} are of unlike steps, {} to {}\n", stages.empty() ? "models" : "stages",
               *first, *last);
  }
  const Score score = evaluate(model, whole.parameters, *test.data);
  const std::string problem =
      write_model(options.out, model.layout(), whole.parameters, run_metadata(config, found.text));
  if (!problem.empty()) {
    return fail({{options.out, problem, "name a file in a folder that can be written to"}});
  }
  fmt::print("model        {}\nspread       {:.4g}\n{}\n", options.out, whole.spread,
             to_text(score, *test.data));
  return 0;
}

}  // namespace

void add_merge(CLI::App& app) {
  const auto options = std::make_shared<MergeOptions>();
  auto* command = app.add_subcommand("merge", "Make one model of what several peers left");
  command
      ->add_option("FOLDER", options->folders,
                   "The folders of peers, brought to this machine: the mean of their models or, of "
                   "a pipeline, all stages, each as the mean of its replicas")
      ->required();
  command->add_option("--out", options->out, "The file to write; `grapevine eval` reads it")
      ->capture_default_str();
  command->add_option("--config", options->config,
                      "The run's config, instead of the one stored in checkpoints");
  command->footer("Example:\n  grapevine merge alice bob carol --out model.safetensors");
  command->callback([options] { exit_with(merge(*options)); });
}

}  // namespace gv
