// Writes the running config in the new mode as text, and reads it like any other config.
#include "peer/config/switched_mode.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "base/rng.hpp"
#include "peer/config/algorithms.hpp"
#include "peer/config/batch_norm_problems.hpp"
#include "peer/config/buffer_problems.hpp"
#include "peer/config/cluster_problems.hpp"
#include "peer/config/config_settings.hpp"
#include "peer/config/switched_mixing.hpp"

namespace gv {
namespace {

/// Returns the lines of `settings`, each as its key and the whole line.
std::vector<std::pair<std::string, std::string>> settings_in(std::string_view settings) {
  std::vector<std::pair<std::string, std::string>> lines;
  while (!settings.empty()) {
    const std::string_view line = settings.substr(0, settings.find('\n'));
    settings.remove_prefix(std::min(settings.size(), line.size() + 1));
    const std::string_view key = line.substr(0, line.find_first_of(" ="));
    lines.emplace_back(key, line);
  }
  return lines;
}

/// Returns the mode that the lines set; if they set none, that of the running config.
ModeKind mode_in(std::string_view settings, ModeKind running) {
  for (const auto& [key, line] : settings_in(settings)) {
    if (key != "run.mode" && key != "run.algorithm") continue;
    const ParsedConfig named =
        parse_config_text(line, "switch", {.data_folder = {}, .peers = {}, .has_own_data = true});
    if (named.problems.empty()) return named.config.run.mode;
  }
  return running;
}

/// Lists the reasons why this swarm or these settings rule out a change of mode.
Problems problems_of_switch(const Config& running, const Config& next) {
  Problems problems;
  const auto refuse = [&](const char* place, const char* reason, const char* remedy) {
    problems.push_back({.place = place, .reason = reason, .remedy = remedy});
  };
  const bool is_pipeline =
      running.run.mode == ModeKind::pipeline || next.run.mode == ModeKind::pipeline;
  if (is_pipeline) {
    refuse("run.mode",
           "in a pipeline no peer has a whole model and its optimiser, so its peers cannot change "
           "over without a copy of both at each",
           "end the run, and start another from the model that it leaves (`grapevine import`)");
  }
  if (running.data.partition.kind == PartitionKind::leased) {
    refuse("data.partition", "each mode deals out leased data in its own way",
           "write another partition");
  }
  if (running.population.is_on() || next.population.is_on()) {
    refuse("population", "its members have hyper-parameters of their own", "leave it out");
  }
  if (running.allreduce.local.period > 1 || next.allreduce.local.period > 1) {
    refuse("allreduce.local_steps", "the outer step is a part of a replica from its start",
           "start the run with the settings that it needs, without a switch");
  }
  const bool were_by_speed =
      running.run.mode == ModeKind::allreduce && running.allreduce.shares_by_speed;
  const bool are_by_speed = next.run.mode == ModeKind::allreduce && next.allreduce.shares_by_speed;
  if (are_by_speed && !were_by_speed) {
    refuse("allreduce.shares", "the learners were made for batches of one size",
           "leave it out: shares are \"equal\" then");
  }
  return problems;
}

}  // namespace

SwitchedConfig switched_config(const Config& running, std::string_view settings, bool has_buffers) {
  SwitchedConfig switched{.config = running, .problems = {}};
  const ModeKind mode = mode_in(settings, running.run.mode);
  const std::string section = std::string(to_string(mode)) + ".";
  std::set<std::string> given;
  for (const auto& [key, line] : settings_in(settings)) {
    given.insert(key);
    if (key == "run.mode" || key == "run.algorithm" || key.starts_with(section)) continue;
    switched.problems.push_back({.place = line,
                                 .reason = "cannot be switched while peers run",
                                 .remedy = "run.mode, run.algorithm and keys of the mode can"});
  }
  if (!switched.problems.empty()) return switched;
  Config base = running;
  base.run.algorithm.clear();
  base.run.mode = mode;
  // problems_of_switch() requires equal shares.
  if (running.run.mode != ModeKind::allreduce) base.allreduce.shares_by_speed = false;
  const bool is_named = given.contains("run.algorithm");
  const Config plain;
  std::string text(settings);
  if (!text.empty() && text.back() != '\n') text += '\n';
  for (const Setting<Config>& setting : config_settings()) {
    const std::string path = setting.path();
    if (given.contains(path) || !setting.counts(base) || path == "run.algorithm") continue;
    // A named algorithm sets the keys of the mode itself. It changes neither the settings of
    // learners, which exist already, nor settings that protect a peer. A population is refused
    // below.
    const bool is_own =
        path == "run.mode" || path.starts_with(section) || path.starts_with("population.");
    const bool stays = protects(running, path) || path == "allreduce.shares";
    if (is_named && is_own && !stays) continue;
    if (path != "run.mode" && !is_named && setting.show(base) == setting.show(plain)) continue;
    text += path + " = " + setting.show(base) + "\n";
    if (path == "model.kind" && !base.model.layers.empty()) {
      text += "model.layers = " + to_string(base.model.layers) + "\n";
    }
  }
  ParsedConfig parsed =
      parse_config_text(text, "switch", {.data_folder = {}, .peers = {}, .has_own_data = true});
  switched.config = std::move(parsed.config);
  switched.problems = problems_of_switch(running, switched.config);
  if (switched.problems.empty()) switched.problems = std::move(parsed.problems);
  if (switched.problems.empty()) switched.problems = problems_of_defences(base, switched.config);
  if (switched.problems.empty()) {
    const ModelSpec model = model_spec(switched.config.model, 1);
    switched.problems = batch_norm_problems(switched.config, model.layers);
    std::ranges::move(cluster_problems(switched.config, model.layers),
                      std::back_inserter(switched.problems));
  }
  if (switched.problems.empty() && has_buffers) {
    switched.problems = buffer_problems(switched.config);
  }
  return switched;
}

bool protects(const Config& running, std::string_view path) {
  if (path.starts_with("mixing.guard")) return running.mixing.rule.guard.kind != GuardKind::none;
  return path.starts_with("gossip.clip_") || path == "gossip.norm_cap" ||
         path == "gossip.quarantine_s" || path == "gossip.offences_max";
}

Problems problems_of_defences(const Config& running, const Config& next) {
  Problems problems;
  for (const Setting<Config>& setting : config_settings()) {
    const bool is_defence = protects(running, setting.path()) && setting.counts(next);
    if (!is_defence || setting.show(next) == setting.show(running)) continue;
    problems.push_back(
        {.place = setting.path(),
         .reason = "protects peers from hostile ones, and stays as their configs say",
         .remedy = "leave it out"});
  }
  return problems;
}

std::string settings_of(std::string_view mode_or_algorithm) {
  const bool is_mode = std::ranges::any_of(
      mode_names(), [&](const ModeName& mode) { return mode.name == mode_or_algorithm; });
  if (!is_mode) return revision_settings(mode_or_algorithm);
  return "run.mode = \"" + std::string(mode_or_algorithm) + "\"\n";
}

std::uint64_t alike_in_step(const Config& config) {
  Config in_step = config;
  in_step.run.mode = ModeKind::allreduce;
  std::uint64_t hash = 0;
  for (const auto& [path, value] : agreement(in_step)) {
    // Peers may have started in different modes, so the settings of mode `allreduce` are left out.
    if (path.starts_with("allreduce.")) continue;
    hash = hash_combine(hash_combine(hash, stable_hash(path)), stable_hash(value));
  }
  return hash;
}

}  // namespace gv
