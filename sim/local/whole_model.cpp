// Reads what peers left, and puts it together.
#include "sim/local/whole_model.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <set>
#include <system_error>
#include <utility>

#include "peer/evaluate.hpp"
#include "peer/refusal.hpp"
#include "sim/mean.hpp"
#include "train/checkpoint/checkpoint.hpp"
#include "train/checkpoint/safetensors.hpp"
#include "train/evaluation.hpp"

namespace gv {
namespace {

/// Any parameter file of a peer, whole or of a stage; empty if it has none.
std::filesystem::path some_checkpoint(const std::filesystem::path& folder) {
  std::filesystem::path newest;
  std::error_code ignored;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(folder / "checkpoints", ignored)) {
    if (is_parameter_file(entry.path()) && entry.path().filename() > newest.filename()) {
      newest = entry.path();
    }
  }
  return newest;
}

/// One line a folder.
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

}  // namespace

std::vector<Layout> layouts_of_stages(const Config& config, const TestSet& test) {
  if (config.run.mode != ModeKind::pipeline) return {};
  return stage_layouts(test.model, test.data->shape,
                       stage_ends(config, test.model, test.data->shape));
}

LastModel read_last_model(const std::filesystem::path& folder, const Layout& whole,
                          const std::vector<Layout>& stages) {
  LastModel last;
  const std::filesystem::path checkpoints = folder / "checkpoints";
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    const std::filesystem::path own = stage_folder(checkpoints, stage);
    if (!std::filesystem::exists(own)) continue;
    LoadedCheckpoint loaded = load_newest_checkpoint(own, stages[stage]);
    if (loaded.checkpoint) last.stages.emplace(stage, *std::move(loaded.checkpoint));
  }
  if (!stages.empty()) return last;
  LoadedCheckpoint loaded = load_newest_checkpoint(checkpoints, whole);
  if (!loaded.checkpoint) return last;
  last.parameters = std::move(loaded.checkpoint->parameters);
  last.step = loaded.checkpoint->optimizer.step;
  return last;
}

WholeModel whole_model(std::span<const LastModel* const> peers, const std::vector<Layout>& stages) {
  WholeModel whole;
  if (stages.empty()) {
    std::vector<std::span<const float>> models;
    for (const LastModel* peer : peers) {
      if (!peer->parameters.empty()) models.emplace_back(peer->parameters);
    }
    whole.parameters = mean_of(models);
    if (models.empty()) whole.problem = "no peer left a checkpoint that can be read";
    whole.spread = spread_of(models, whole.parameters);
    return whole;
  }
  double squares = 0;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    std::uint64_t newest = 0;
    std::vector<std::span<const float>> replicas;
    for (const LastModel* peer : peers) {
      const auto own = peer->stages.find(stage);
      if (own == peer->stages.end()) continue;
      const std::uint64_t step = own->second.optimizer.step;
      if (step > newest) replicas.clear();
      newest = std::max(newest, step);
      if (step == newest) replicas.emplace_back(own->second.parameters);
    }
    if (replicas.empty()) {
      return {.problem = fmt::format("no peer left a checkpoint of stage {}", stage)};
    }
    const std::vector<float> mean = mean_of(replicas);
    squares += std::pow(spread_of(replicas, mean), 2);
    whole.parameters.insert(whole.parameters.end(), mean.begin(), mean.end());
    whole.steps.push_back(newest);
  }
  whole.spread = std::sqrt(squares);
  return whole;
}

std::string write_model(const std::filesystem::path& file, const Layout& layout,
                        std::span<const float> parameters,
                        const std::map<std::string, std::string>& metadata) {
  std::vector<TensorView> tensors;
  for (const TensorSlot& slot : layout.slots()) {
    tensors.push_back({slot.name, slot.shape, parameters.subspan(slot.offset, slot.size)});
  }
  return write_safetensors(file, tensors, metadata);
}

int merge_command(const MergeOptions& options) {
  Problems problems;
  std::filesystem::path stored;
  std::set<std::filesystem::path> known;
  for (const std::string& folder : options.folders) {
    const std::filesystem::path file = some_checkpoint(folder);
    if (!known.insert(std::filesystem::weakly_canonical(folder)).second) {
      problems.push_back({folder, "named twice", "each peer counts once"});
    }
    if (file.empty()) {
      problems.push_back({folder, "no checkpoint below checkpoints/ in it",
                          "name the folder that the peer was given with --folder"});
    }
    if (stored.empty()) stored = file;
  }
  if (!problems.empty()) return fail(problems);
  const StoredConfig found = stored_config(stored.string(), options.config);
  if (!found.parsed.problems.empty()) return fail(found.parsed.problems);
  const Config& config = found.parsed.config;
  const TestSet test = load_test_set(config);
  if (!test.problems.empty()) return fail(test.problems);
  Model model(test.model, test.data->shape, evaluation_batch(*test.data));
  const std::vector<Layout> stages = layouts_of_stages(config, test);
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

}  // namespace gv
