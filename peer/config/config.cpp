// Reads a config strictly by the table of settings, and derives values from the config.
#include "peer/config/config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/check.hpp"
#include "base/rng.hpp"
#include "peer/config/algorithms.hpp"
#include "peer/config/config_reading.hpp"
#include "peer/config/config_settings.hpp"
#include "peer/config/old_names.hpp"
#include "peer/config/toml.hpp"
#include "peer/modes/course.hpp"
#include "peer/modes/pipeline_options.hpp"

namespace gv {

namespace {

/// Parses the text of one config.
class Reader : private ConfigReading {
 public:
  Reader(std::string_view text, std::string_view text_name, ConfigOverrides overrides)
      : ConfigReading{.name = std::string(text_name)}, overrides_(std::move(overrides)) {
    root_ = read_toml(text, name, parsed.problems);
  }

  ParsedConfig run() {
    begin_with_algorithm();
    read_sections(root_, "");
    check_algorithm();
    override_peers();
    check_together(*this);
    const auto others = static_cast<std::ptrdiff_t>(parsed.problems.size());
    find_data_files(*this, overrides_.data_folder);
    // The data folder is resolved even if a program provides the data, because model files record
    // it. Missing data files are then no problem.
    if (overrides_.has_own_data) {
      parsed.problems.erase(parsed.problems.begin() + others, parsed.problems.end());
    }
    keep_places();
    std::stable_sort(
        parsed.problems.begin(), parsed.problems.end(),
        [this](const Problem& a, const Problem& b) { return line_of_place(a) < line_of_place(b); });
    if (has_enough_problems()) {
      parsed.problems.resize(problems_max);
      parsed.problems.push_back({name, "may have further problems", "mend these first"});
    }
    return std::move(parsed);
  }

 private:
  const NamedAlgorithm* algorithm_ = nullptr;  ///< The named algorithm that the text builds on.
  ModeKind algorithm_mode_ = ModeKind::gossip;

  /// True once enough problems have been found to stop the search.
  bool has_enough_problems() const { return parsed.problems.size() >= problems_max; }

  // ---- Keys ----

  static std::vector<std::string> sections_below(const std::string& above) {
    std::set<std::string> names;
    for (const Setting<Config>& setting : config_settings()) {
      std::string_view section = setting.section;
      if (!above.empty()) {
        if (!section.starts_with(above + ".")) continue;
        section.remove_prefix(above.size() + 1);
      }
      names.emplace(section.substr(0, section.find('.')));
    }
    return {names.begin(), names.end()};
  }

  static std::vector<std::string> keys_of(const std::string& section) {
    std::vector<std::string> keys;
    for (const Setting<Config>& setting : config_settings()) {
      if (setting.section == section) keys.emplace_back(setting.key);
    }
    return keys;
  }

  static const Setting<Config>* find(std::string_view section, std::string_view key) {
    for (const Setting<Config>& setting : config_settings()) {
      if (setting.section == section && setting.key == key) return &setting;
    }
    return nullptr;
  }

  static std::string joined(const std::string& above, const std::string& key) {
    return above.empty() ? key : above + "." + key;
  }

  /// Reads the settings of the algorithm that the text names. The text itself then overrides them.
  void begin_with_algorithm() {
    const auto run = root_.find("run");
    if (run == root_.end()) return;
    const auto* keys = std::get_if<TomlTable>(&run->second.data);
    if (keys == nullptr || !keys->contains("algorithm")) return;
    const auto* name = std::get_if<std::string>(&keys->at("algorithm").data);
    algorithm_ = name != nullptr ? named_algorithm(*name) : nullptr;
    if (algorithm_ == nullptr) return;
    Problems none;
    for (const auto& [section, values] : read_toml(algorithm_->settings, "settings", none)) {
      for (const auto& [key, value] : std::get<TomlTable>(values.data)) {
        const Setting<Config>* setting = find(section, key);
        check(setting != nullptr && !setting->read(value, parsed.config),
              "the settings of an algorithm are valid");
      }
    }
    algorithm_mode_ = parsed.config.run.mode;
  }

  void check_algorithm() {
    if (algorithm_ == nullptr || parsed.config.run.mode == algorithm_mode_) return;
    report("run.mode", "\"" + std::string(algorithm_->name) + "\" works in another mode",
           "leave mode out, or algorithm");
  }

  /// Replaces the number of peers in the text with the actual number for all checks. If the number
  /// in the text cannot be read, that problem is still reported.
  void override_peers() {
    if (overrides_.peers) parsed.config.run.peers = *overrides_.peers;
  }

  void keep_places() {
    ConfigPlaces& places = parsed.places;
    places.name = name;
    for (const auto& [path, key] : given) places.lines[path] = key.line;
    places.lines.insert(sections.begin(), sections.end());
  }

  void read_sections(const TomlTable& table, const std::string& section) {
    const std::vector<std::string> inner = sections_below(section);
    for (const auto& [key, value] : table) {
      if (has_enough_problems()) return;
      const std::string path = joined(section, key);
      const auto* members = std::get_if<TomlTable>(&value.data);
      // sim/scenario reads this section: speeds, links and faults of a simulated or tested run.
      if (path == "scenario") continue;
      if (path == "model.layers") {
        read_layers(value);
      } else if (const Setting<Config>* setting = find(section, key)) {
        read_setting(*setting, value, path);
      } else if (members != nullptr && std::count(inner.begin(), inner.end(), key) != 0) {
        sections.emplace(path, value.line);
        read_sections(*members, path);
      } else if (std::count(inner.begin(), inner.end(), key) != 0 &&
                 std::holds_alternative<TomlList>(value.data)) {
        report(value.line, path, "a list, where one section belongs",
               "write [" + path + "] once, in single brackets");
      } else if (members != nullptr) {
        read_unknown_section(*members, key, section, value.line);
      } else {
        report_unknown_key(key, section, value.line);
      }
    }
  }

  void read_setting(const Setting<Config>& setting, const TomlValue& value,
                    const std::string& path) {
    const auto bad = setting.read(value, parsed.config);
    given[path] = {value.line, !bad.has_value()};
    if (bad) report(value.line, path, bad->reason, bad->remedy);
  }

  /// Reports an unknown section. If its name is almost right, still checks its keys.
  void read_unknown_section(const TomlTable& members, const std::string& key,
                            const std::string& above, std::size_t line) {
    const std::string given = "[" + joined(above, key) + "]";
    if (const auto now = renamed(given)) {
      report(line, given, "was renamed", "write " + *now);
      const std::string meant = now->substr(1, now->size() - 2);
      if (sections.contains(meant)) return;
      sections.emplace(meant, line);
      return read_sections(members, meant);
    }
    const std::vector<std::string> names = sections_below(above);
    if (names.empty()) return report_unknown_key(key, above, line);
    const auto nearest = nearest_name(key, names);
    if (!nearest) return report(line, given, "unknown section", near_remedy(key, names));
    const std::string meant = joined(above, *nearest);
    report(line, "[" + joined(above, key) + "]", "unknown section",
           "the nearest valid one is [" + meant + "]");
    if (edit_distance(key, *nearest) > 2 || sections.contains(meant)) return;
    sections.emplace(meant, line);
    read_sections(members, meant);
  }

  void report_unknown_key(const std::string& key, const std::string& section, std::size_t line) {
    const std::string path = joined(section, key);
    if (section.empty()) {
      for (const Setting<Config>& setting : config_settings()) {
        if (setting.key == key) {
          return report(line, path, "unknown key outside any section",
                        "it belongs below [" + std::string(setting.section) + "]");
        }
      }
      const auto nearest = nearest_name(key, sections_below(""));
      return report(line, path, "unknown key outside any section",
                    nearest ? "the nearest section is [" + *nearest + "]"
                            : std::string("remove it: no section has such a key"));
    }
    if (const auto now = renamed(path)) return report(line, path, "was renamed", "write " + *now);
    const std::vector<std::string> keys = keys_of(section);
    const std::string nearest = nearest_name(key, keys).value_or("");
    const bool wrong_unit =
        key != nearest && without_unit(key) != key && without_unit(key) == without_unit(nearest);
    std::string elsewhere;
    for (const Setting<Config>& setting : config_settings()) {
      if (setting.key != key) continue;
      elsewhere += (elsewhere.empty() ? "[" : " or [") + std::string(setting.section) + "]";
    }
    if (wrong_unit) {
      report(line, path, "wrong unit in the key's name", "write " + nearest + " and convert");
    } else if (!elsewhere.empty()) {
      report(line, path, "unknown key",
             "it belongs below " + elsewhere +
                 (nearest.empty() ? "" : "; the nearest here is " + nearest));
    } else {
      report(line, path, "unknown key", near_remedy(key, keys));
    }
  }

  void read_layers(const TomlValue& value) {
    given["model.layers"] = {value.line, true};
    parsed.config.model.layers = read_layers(value, "model.layers");
  }

  std::vector<LayerSpec> read_layers(const TomlValue& value, const std::string& list_path) {
    std::vector<LayerSpec> layers;
    const bool outermost = list_path == "model.layers";
    const std::string remedy = outermost ? "write one [[model.layers]] for each layer"
                                         : "write layers = [{ kind = \"gelu\" }] or another list";
    const auto* list = std::get_if<TomlList>(&value.data);
    if (list == nullptr) {
      report(value.line, list_path, "wrong type: " + std::string(kind_of(value)), remedy);
      return layers;
    }
    for (std::size_t i = 0; i < list->size() && !has_enough_problems(); ++i) {
      const std::string path = list_path + "[" + std::to_string(i) + "]";
      const TomlValue& item = (*list)[i];
      parsed.places.lines[path] = item.line;
      const auto* members = std::get_if<TomlTable>(&item.data);
      if (members == nullptr) {
        report(item.line, path, "wrong type: " + std::string(kind_of(item)), remedy);
      } else {
        layers.push_back(read_layer(*members, path, item.line));
      }
    }
    return layers;
  }

  LayerSpec read_layer(const TomlTable& members, const std::string& path, std::size_t line) {
    LayerSpec layer;
    std::vector<std::string> names;
    bool sound = true;
    for (const Setting<LayerSpec>& setting : layer_settings()) {
      names.emplace_back(setting.key);
      const auto found = members.find(names.back());
      if (found == members.end()) continue;
      if (setting.key == "layers" || setting.key == "shortcut") {
        auto& list = setting.key == "layers" ? layer.layers : layer.shortcut;
        list = read_layers(found->second, path + "." + names.back());
      } else if (const auto bad = setting.read(found->second, layer)) {
        report(found->second.line, path + "." + names.back(), bad->reason, bad->remedy);
        sound = sound && names.back() != "kind";
      }
    }
    if (!members.contains("kind")) {
      report(line, path, "a layer without a kind", "add kind = \"dense\" or another");
      sound = false;
    }
    for (const auto& [key, value] : members) {
      const auto named = std::find(names.begin(), names.end(), key);
      if (named == names.end()) {
        if (has_enough_problems()) break;
        report(value.line, path + "." + key, "unknown key", near_remedy(key, names));
        continue;
      }
      const auto& setting = layer_settings()[static_cast<std::size_t>(named - names.begin())];
      if (sound && !setting.counts(layer)) {
        report(value.line, path + "." + key, "has no effect here",
               "remove it; it counts with " + setting.condition.words);
      }
    }
    return layer;
  }

  ConfigOverrides overrides_;
  TomlTable root_;
};

}  // namespace

ParsedConfig parse_config_text(std::string_view text, std::string_view name,
                               const ConfigOverrides& overrides) {
  return Reader(text, name, overrides).run();
}

ParsedConfig parse_config_file(const std::string& path, const ConfigOverrides& overrides) {
  ParsedConfig failed;
  const auto text = read_text_file(path, "config", failed.problems);
  return text ? parse_config_text(*text, path, overrides) : failed;
}

Config default_config() {
  ParsedConfig parsed = parse_config_text(default_config_text(), "default.toml");
  check(parsed.problems.empty(), "the built-in config has a problem");
  return std::move(parsed.config);
}

std::string to_toml(const Config& config) {
  const std::string& algorithm = config.run.algorithm;
  Config before;
  if (!algorithm.empty()) {
    before = parse_config_text("run.algorithm = \"" + algorithm + "\"", "algorithm").config;
    before.run.algorithm.clear();
  }
  std::string text;
  std::string_view section;
  for (const Setting<Config>& setting : config_settings()) {
    if (!setting.counts(config) || setting.show(config) == setting.show(before)) continue;
    if (setting.section != section) text += "[" + std::string(setting.section) + "]\n";
    section = setting.section;
    text += std::string(setting.key) + " = " + setting.show(config) + "\n";
    if (setting.path() != "model.kind" || config.model.layers.empty()) continue;
    text += "layers = " + to_string(config.model.layers) + "\n";
  }
  return text;
}

ModelSpec model_spec(const ModelConfig& model, std::size_t outputs) {
  ModelSpec spec;
  switch (model.kind) {
    case ModelKind::linear:
      spec = linear(outputs);
      break;
    case ModelKind::mlp:
      spec = mlp(model.hidden, outputs);
      break;
    case ModelKind::lenet:
      spec = lenet(outputs);
      break;
    case ModelKind::cnn:
      spec = cnn(outputs);
      break;
    case ModelKind::transformer:
      spec = transformer(model.transformer, outputs);
      break;
    case ModelKind::layers:
      spec.layers = model.layers;
      break;
  }
  if (model.kind != ModelKind::layers) {
    for (LayerSpec& layer : spec.layers) layer.convolution = model.convolution;
  }
  spec.loss = model.loss;
  spec.weights = model.weights;
  return spec;
}

bool mixes_stages(const Config& config) {
  return config.run.mode == ModeKind::pipeline &&
         config.pipeline.consensus == StageConsensus::mixing;
}

std::optional<MixRule> mixing_rule(const Config& config) {
  if (config.run.mode == ModeKind::mixing) return config.mixing.rule;
  if (mixes_stages(config)) return in_runs(config.mixing.rule);
  return std::nullopt;
}

bool has_swarm_budget(const Config& config) {
  return config.run.budget == BudgetKind::swarm && config.run.mode != ModeKind::pipeline &&
         !config.population.is_on();
}

bool has_common_end(const Config& config) {
  return has_swarm_budget(config) || config.run.mode == ModeKind::pipeline;
}

bool has_target(const Config& config) { return has_common_end(config) && config.run.target > 0; }

Hyperparameters config_hyperparameters(const Config& config) {
  const PopulationConfig& population = config.population;
  const TrainConfig& train = config.train;
  return {.learning_rate = train.schedule.learning_rate,
          .momentum = train.optimizer.momentum,
          .weight_decay = population.vary_weight_decay ? train.optimizer.weight_decay : 0,
          .batch = population.vary_batch ? static_cast<double>(train.batch) : 0,
          .alpha = population.vary_alpha ? config.gossip.alpha : 0,
          .period = population.vary_period ? static_cast<double>(config.gossip.period_steps) : 0};
}

std::uint64_t rounded_count(double count, std::uint64_t most) {
  if (count >= static_cast<double>(most)) return most;
  return static_cast<std::uint64_t>(std::max(1.0, std::round(count)));
}

std::uint64_t steps_of(const Config& config, std::size_t shard_samples) {
  if (config.run.steps != 0) return config.run.steps;
  const double steps = config.run.epochs * static_cast<double>(shard_samples) /
                       static_cast<double>(config.train.batch);
  return rounded_count(steps, samples_max / config.train.batch);
}

std::size_t lockstep_batch_max(const Config& config) {
  return (config.allreduce.shares_by_speed ? 4 : 1) * config.train.batch;
}

BatchGrowth batch_growth(const Config& config) {
  const ScheduleSpec& schedule = config.train.schedule;
  if (schedule.kind != ScheduleKind::growing_batch) return {};
  const auto together = static_cast<double>(config.train.batch * config.run.peers);
  BatchGrowth growth{.at = {}, .factor = schedule.batch_factor};
  for (const std::size_t step : schedule.step_at) {
    if (growth.at.size() == schedule.batch_growths) break;
    growth.at.push_back(rounded_count(static_cast<double>(step) * together, samples_max));
  }
  return growth;
}

namespace {

/// Returns the text, or its length and hash if it is long. Peers send each other these texts in
/// every hello, and two different hashes are enough to show that the full texts differ.
std::string short_form(std::string text) {
  constexpr std::size_t longest = 1000;
  if (text.size() <= longest) return text;
  return fmt::format("a text of {} characters with the hash {:016x}", text.size(),
                     stable_hash(text));
}

}  // namespace

std::vector<std::pair<std::string, std::string>> agreement(const Config& config) {
  std::vector<std::pair<std::string, std::string>> fields;
  for (const Setting<Config>& setting : config_settings()) {
    // Except in mode `gossip`, peers must agree on what a step does and on the number of steps.
    const bool of_steps =
        setting.section == "train" ||
        (setting.section == "run" &&
         (setting.key == "steps" || setting.key == "epochs" || setting.key == "peers"));
    // A peer that copies another takes over its optimiser's state, so both need the same kind of
    // optimiser.
    const bool is_copied =
        config.population.is_on() && setting.section == "train" && setting.key == "optimizer";
    // Peers that share a budget must agree on it. A budget in steps also depends on the batch size.
    const bool of_budget =
        has_swarm_budget(config) &&
        (setting.section == "run" || (config.run.steps > 0 && setting.path() == "train.batch"));
    const bool agrees = setting.agrees || is_copied ||
                        (of_steps && (config.run.mode != ModeKind::gossip || of_budget));
    const bool is_of_leases =
        config.data.partition.kind == PartitionKind::leased &&
        (setting.path() == "data.partition" || setting.path() == "train.batch");
    if ((!agrees && !is_of_leases) || !setting.counts(config)) continue;
    fields.emplace_back(setting.path(), short_form(setting.show(config)));
  }
  if (config.model.kind == ModelKind::layers) {
    fields.emplace_back("model.layers", short_form(to_string(config.model.layers)));
  }
  return fields;
}

}  // namespace gv
