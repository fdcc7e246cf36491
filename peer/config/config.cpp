// Reads a config strictly: walks the table of settings, then checks what settings mean together.
#include "peer/config/config.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "base/check.hpp"
#include "base/rng.hpp"
#include "consensus/topology/graphs.hpp"
#include "consensus/topology/pairs.hpp"
#include "peer/config/algorithms.hpp"
#include "peer/config/config_settings.hpp"
#include "peer/config/old_names.hpp"
#include "peer/config/toml.hpp"

namespace gv {

namespace {

/// One parse: the config as far as it is known, what was set where, and what is wrong.
class Reading {
 public:
  Reading(std::string_view text, std::string_view name, std::string_view data_folder)
      : name_(name), data_folder_(data_folder) {
    root_ = read_toml(text, name_, parsed_.problems);
  }

  ParsedConfig run() {
    begin_with_algorithm();
    read_sections(root_, "");
    check_algorithm();
    check_effects();
    check_steps();
    check_model();
    check_text();
    check_membership();
    check_topology();
    check_trigger();
    check_population();
    check_threads();
    check_network();
    check_ring();
    check_pipeline();
    check_mixing();
    find_data_files();
    std::stable_sort(
        parsed_.problems.begin(), parsed_.problems.end(),
        [this](const Problem& a, const Problem& b) { return line_of_place(a) < line_of_place(b); });
    return std::move(parsed_);
  }

 private:
  /// What is known of a key that the file sets.
  struct Given {
    std::size_t line = 0;
    bool sound = true;  ///< It was read without a problem.
  };

  const NamedAlgorithm* algorithm_ = nullptr;  ///< That the text builds on.
  ModeKind algorithm_mode_ = ModeKind::gossip;

  std::string place(std::size_t line, const std::string& path) const {
    return name_ + ":" + std::to_string(line) + ": " + path;
  }

  /// The line inside a place this reading wrote; 0 for the file as a whole.
  std::size_t line_of_place(const Problem& problem) const {
    if (problem.place.size() <= name_.size()) return 0;
    return std::strtoull(problem.place.c_str() + name_.size() + 1, nullptr, 10);
  }

  void report(std::size_t line, const std::string& path, std::string reason, std::string remedy) {
    parsed_.problems.push_back({place(line, path), std::move(reason), std::move(remedy)});
  }

  /// Where `path` is set, else where its section starts, else line 1.
  std::size_t line_of(const std::string& path) const {
    const auto found = given_.find(path);
    if (found != given_.end()) return found->second.line;
    const auto section = sections_.find(path.substr(0, path.rfind('.')));
    return section != sections_.end() ? section->second : 1;
  }

  bool is_given(const std::string& path) const { return given_.contains(path); }

  /// False when the file sets it to something we could not read: then nothing follows from it.
  bool is_sound(std::string_view path) const {
    const auto found = given_.find(std::string(path));
    return found == given_.end() || found->second.sound;
  }

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

  /// What the text says is read over the settings of the algorithm that it names.
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
        check(setting != nullptr && !setting->read(value, parsed_.config),
              "the settings of an algorithm are valid");
      }
    }
    algorithm_mode_ = parsed_.config.run.mode;
  }

  void check_algorithm() {
    if (algorithm_ == nullptr || parsed_.config.run.mode == algorithm_mode_) return;
    report(line_of("run.mode"), "run.mode",
           "\"" + std::string(algorithm_->name) + "\" works in another mode",
           "leave mode out, or algorithm");
  }

  void read_sections(const TomlTable& table, const std::string& section) {
    const std::vector<std::string> inner = sections_below(section);
    for (const auto& [key, value] : table) {
      const std::string path = joined(section, key);
      const auto* members = std::get_if<TomlTable>(&value.data);
      // Speeds, links and faults of a simulated or tested run: sim/scenario reads them.
      if (path == "scenario") continue;
      if (path == "model.layers") {
        read_layers(value);
      } else if (const Setting<Config>* setting = find(section, key)) {
        read_setting(*setting, value, path);
      } else if (members != nullptr && std::count(inner.begin(), inner.end(), key) != 0) {
        sections_.emplace(path, value.line);
        read_sections(*members, path);
      } else if (members != nullptr) {
        read_unknown_section(*members, key, section, value.line);
      } else {
        report_unknown_key(key, section, value.line);
      }
    }
  }

  void read_setting(const Setting<Config>& setting, const TomlValue& value,
                    const std::string& path) {
    const auto bad = setting.read(value, parsed_.config);
    given_[path] = {value.line, !bad.has_value()};
    if (bad) report(value.line, path, bad->reason, bad->remedy);
  }

  /// Reports it and, if its name is almost right, still judges the keys in it.
  void read_unknown_section(const TomlTable& members, const std::string& key,
                            const std::string& above, std::size_t line) {
    const std::string given = "[" + joined(above, key) + "]";
    if (const auto now = renamed(given)) {
      report(line, given, "was renamed", "write " + *now);
      const std::string meant = now->substr(1, now->size() - 2);
      if (sections_.contains(meant)) return;
      sections_.emplace(meant, line);
      return read_sections(members, meant);
    }
    const std::vector<std::string> names = sections_below(above);
    const auto nearest = nearest_name(key, names);
    if (!nearest) return report_unknown_key(key, above, line);
    const std::string meant = joined(above, *nearest);
    report(line, "[" + joined(above, key) + "]", "unknown section",
           "the nearest valid one is [" + meant + "]");
    if (edit_distance(key, *nearest) > 2 || sections_.contains(meant)) return;
    sections_.emplace(meant, line);
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
      return report(
          line, path, "unknown key outside any section",
          "the nearest section is [" + nearest_name(key, sections_below("")).value_or("run") + "]");
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
             "it belongs below " + elsewhere + "; the nearest here is " + nearest);
    } else {
      report(line, path, "unknown key", "the nearest valid one is " + nearest);
    }
  }

  void read_layers(const TomlValue& value) {
    given_["model.layers"] = {value.line, true};
    parsed_.config.model.layers = read_layers(value, "model.layers");
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
    for (std::size_t i = 0; i < list->size(); ++i) {
      const std::string path = list_path + "[" + std::to_string(i) + "]";
      const TomlValue& item = (*list)[i];
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
      if (setting.key == "layers") {
        layer.layers = read_layers(found->second, path + ".layers");
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
        report(value.line, path + "." + key, "unknown key",
               "the nearest valid one is " + nearest_name(key, names).value_or("kind"));
        continue;
      }
      const auto& setting = layer_settings()[static_cast<std::size_t>(named - names.begin())];
      if (sound && setting.has_effect && !setting.has_effect(layer)) {
        report(value.line, path + "." + key, "has no effect here",
               "remove it; it counts with " + std::string(setting.effective_with));
      }
    }
    return layer;
  }

  // ---- What settings mean together ----

  void check_effects() {
    for (const Setting<Config>& setting : config_settings()) {
      const std::string path = std::string(setting.section) + "." + std::string(setting.key);
      if (!setting.has_effect || !is_given(path) || !is_sound(setting.depends_on)) continue;
      if (setting.has_effect(parsed_.config)) continue;
      report(line_of(path), path, "has no effect here",
             "remove it; it counts with " + std::string(setting.effective_with));
    }
  }

  void check_steps() {
    const std::vector<std::size_t>& at = parsed_.config.train.schedule.step_at;
    if (parsed_.config.train.schedule.kind != ScheduleKind::step) return;
    if (at.empty() && is_sound("train.step_at")) {
      report(line_of("train.schedule"), "train.schedule", "\"step\" needs the steps to change at",
             "add step_at = [1000, 2000]");
    }
    if (!std::is_sorted(at.begin(), at.end(), std::less_equal<>())) {
      report(line_of("train.step_at"), "train.step_at", "not rising", "sort the list");
    }
  }

  void check_model() {
    if (!is_sound("model.kind")) return;
    const bool by_list = parsed_.config.model.kind == ModelKind::layers;
    if (by_list && !is_given("model.layers")) {
      report(line_of("model.kind"), "model.kind", "\"layers\" without a list",
             "add [[model.layers]] tables, or name a model as kind = \"mlp\"");
    }
    if (!by_list && is_given("model.layers")) {
      report(line_of("model.layers"), "model.layers", "has no effect here",
             "remove the list; it counts with kind = \"layers\"");
    }
  }

  void check_text() {
    const Config& config = parsed_.config;
    const ModelConfig& model = config.model;
    const bool is_text = config.data.kind == DataKind::text;
    const PartitionKind dealt = config.data.partition.kind;
    if (is_text && is_sound("data.partition") &&
        (dealt == PartitionKind::dirichlet || dealt == PartitionKind::by_label)) {
      report(line_of("data.partition"), "data.partition", "a text has no labels to deal out by",
             "write partition = \"iid\" or \"shared\"");
    }
    if (model.kind != ModelKind::transformer) return;
    if (!is_text && is_sound("data.kind")) {
      report(line_of("model.kind"), "model.kind", "a transformer learns text",
             "write kind = \"text\" below [data], or name another model");
    }
    if (model.transformer.width % model.transformer.heads != 0 && is_sound("model.width") &&
        is_sound("model.heads")) {
      report(line_of(is_given("model.heads") ? "model.heads" : "model.width"), "model.heads",
             std::to_string(model.transformer.heads) + " heads do not divide the width of " +
                 std::to_string(model.transformer.width),
             "choose a divisor");
    }
  }

  void check_membership() {
    const Membership::Options& membership = parsed_.config.membership;
    if (membership.probe_timeout < membership.probe_period ||
        !is_sound("membership.probe_timeout_s") || !is_sound("membership.probe_period_s")) {
      return;
    }
    const std::string path = is_given("membership.probe_timeout_s") ? "membership.probe_timeout_s"
                                                                    : "membership.probe_period_s";
    report(line_of(path), path, "the probe timeout is not shorter than the probe period",
           "make probe_timeout_s about half of probe_period_s");
  }

  /// Drawn pairs are those of rounds, which only steps count alike on all peers.
  void check_trigger() {
    const GossipOptions& gossip = parsed_.config.gossip;
    if (parsed_.config.run.mode != ModeKind::gossip || gossip.trigger == TriggerKind::steps) return;
    if (gossip.pairing != PairingKind::uniform) {
      report(line_of("gossip.trigger"), "gossip.trigger",
             "drawn pairs meet in rounds, which only \"steps\" counts alike on all peers",
             "write pairing = \"uniform\", or trigger = \"steps\"");
    }
    if (gossip.trigger == TriggerKind::spread && gossip.target_spread == 0) {
      report(line_of("gossip.trigger"), "gossip.trigger", "no spread to aim at",
             "add target_spread, such as the spread that status shows of a run by steps");
    }
  }

  /// What exchanges of two can do, and for the number of peers that the run is meant for.
  void check_topology() {
    const GossipOptions& gossip = parsed_.config.gossip;
    const TopologyKind kind = gossip.topology.kind;
    if (parsed_.config.run.mode != ModeKind::gossip) return;
    if (!is_sound("gossip.topology") || !is_sound("gossip.topology_degree")) return;
    const bool by_degree = is_given("gossip.topology_degree");
    const std::string path = by_degree ? "gossip.topology_degree" : "gossip.topology";
    if (const auto problem = problem_with_pairs(gossip.topology)) {
      return report(line_of(path), path, problem->place + ": " + problem->reason, problem->remedy);
    }
    if (gossip.pairing == PairingKind::uniform && !is_graph(kind)) {
      return report(line_of("gossip.topology"), "gossip.topology",
                    shown_name(kind) +
                        " says who meets whom in each round, and with pairing = "
                        "\"uniform\" there are no rounds",
                    "write pairing = \"matching\", or a topology such as \"exponential\"");
    }
    if (!is_sound("run.peers")) return;
    if (const auto problem = problem_of(gossip.topology, parsed_.config.run.peers)) {
      report(line_of(path), path, problem->place + " (run.peers): " + problem->reason,
             problem->remedy);
    }
  }

  /// Everybody has a learning rate of its own there.
  void check_population() {
    const Config& config = parsed_.config;
    if (!config.gossip.population.is_on() || !is_sound("run.mode")) return;
    const std::string path = "population.every_steps";
    const ModeKind mode = config.run.mode;
    if (mode != ModeKind::gossip) {
      const std::string reason =
          mode == ModeKind::allreduce ? "in lockstep all make the same step, with one learning rate"
          : mode == ModeKind::pipeline ? "in a pipeline nobody has a whole model to be judged by"
                                       : "a round mixes models by one rule that goes by one "
                                         "learning rate";
      report(line_of(path), path, reason, "write mode = \"gossip\" below [run], or leave it out");
    }
    if (config.gossip.alpha_with_learning_rate && is_sound("gossip.alpha_schedule")) {
      report(line_of("gossip.alpha_schedule"), "gossip.alpha_schedule",
             "in a population every peer has a learning rate of its own, and no two would agree",
             "write alpha_schedule = \"constant\"");
    }
  }

  /// Steps that are made at once have no order.
  void check_threads() {
    const Config& config = parsed_.config;
    if (config.train.threads == 1) return;
    const std::string path = "train.threads";
    if (config.run.mode != ModeKind::gossip && is_sound("run.mode")) {
      report(line_of(path), path,
             "steps without locks have no order, and what others are told of each in this mode "
             "would not be what was done",
             "write threads = 1, or mode = \"gossip\" below [run]");
    }
    if (config.train.optimizer.kind != OptimizerKind::sgd && is_sound("train.optimizer")) {
      report(line_of("train.optimizer"), "train.optimizer",
             "momentum and moments are of one sequence of gradients, and threads that step at once "
             "make several",
             "write optimizer = \"sgd\", or threads = 1");
    }
  }

  static std::string shown_name(TopologyKind kind) {
    return "\"" + std::string(to_string(kind)) + "\"";
  }

  /// Pieces that are written anew on their way can only be passed on as they came.
  void check_ring() {
    const AllReduceOptions& allreduce = parsed_.config.allreduce;
    if (allreduce.momentum > 0 && parsed_.config.run.mode == ModeKind::allreduce &&
        is_sound("allreduce.momentum")) {
      if (parsed_.config.train.optimizer.kind != OptimizerKind::sgd &&
          is_sound("train.optimizer")) {
        report(line_of("train.optimizer"), "train.optimizer",
               "allreduce.momentum is one already, and two would add up",
               "write optimizer = \"sgd\"");
      }
      if (allreduce.local.period > 1) {
        report(line_of("allreduce.period"), "allreduce.period",
               "allreduce.momentum is of gradients, and what local steps come to is none",
               "write period = 1, or leave momentum out");
      }
    }
    if (allreduce.factors.rank > 0 && allreduce.top_k_per_512 > 0) {
      report(line_of("allreduce.rank"), "allreduce.rank",
             "factors have no few largest numbers, all of theirs are about as large",
             "leave rank or top_k_per_512 out");
    }
    const bool plain = allreduce.codec == ValueCodec::identity && allreduce.top_k_per_512 == 0;
    if (allreduce.sufficient_factors && (!plain || allreduce.factors.rank > 0)) {
      report(line_of("allreduce.sufficient_factors"), "allreduce.sufficient_factors",
             "what they are the product of is sent exactly, and then nothing is left to be coded",
             "leave codec, top_k_per_512 and rank out, or sufficient_factors");
    }
    if (allreduce.sufficient_factors && allreduce.local.period > 1) {
      report(line_of("allreduce.sufficient_factors"), "allreduce.sufficient_factors",
             "what local steps come to is not the product of one batch's inputs and deltas",
             "write period = 1, or leave sufficient_factors out");
    }
    if (plain || !allreduce.algorithm || *allreduce.algorithm == ReduceAlgorithm::ring) return;
    report(line_of("allreduce.algorithm"), "allreduce.algorithm",
           "codec and top_k_per_512 need the ring, where final pieces are passed on as they came",
           "write algorithm = \"ring\" or \"auto\", or leave codec and top_k_per_512 out");
  }

  void check_pipeline() {
    PipelineConfig& pipeline = parsed_.config.pipeline;
    PipelineOptions& mode = pipeline.mode;
    if (parsed_.config.run.mode != ModeKind::pipeline) return;
    if (mode.kind == PipelineKind::two_bw && mode.accumulate == 0) mode.accumulate = stages();
    // As over one chain: what chains there will be nobody knows yet.
    Problems found = problems(mode.kind, straight_routes(stages(), mode.micro_batches), stages(),
                              mode.accumulate);
    if (!is_synchronous(mode.kind) && mode.router != RouterKind::fixed) {
      found.push_back({std::string(to_string(mode.kind)),
                       "its parameters have versions, which only fixed chains agree on",
                       "write router = \"fixed\", or schedule = \"1f1b\""});
    }
    for (Problem& problem : found) {
      report(line_of("pipeline.schedule"), "pipeline.schedule",
             problem.place + ": " + problem.reason, std::move(problem.remedy));
    }
  }

  std::size_t stages() const {
    const PipelineConfig& pipeline = parsed_.config.pipeline;
    return pipeline.ends.empty() ? pipeline.stages : pipeline.ends.size();
  }

  /// So many carry a stage, and mix, where stages take as long; where one takes longer, more do.
  std::size_t replicas() const {
    const bool both_ways = parsed_.config.pipeline.mode.kind == PipelineKind::chimera;
    const std::size_t chain = std::max<std::size_t>(1, stages() / (both_ways ? 2 : 1));
    return std::max<std::size_t>(2, (parsed_.config.run.peers + chain - 1) / chain);
  }

  /// What makes sense together, for the number of peers that the run is meant for.
  void check_mixing() {
    const Config& config = parsed_.config;
    const bool in_stages = mixes_stages(config);
    const std::size_t peers = in_stages ? replicas() : config.run.peers;
    if ((config.run.mode != ModeKind::mixing && !in_stages) || !is_sound("run.peers")) return;
    // Names of a rule are keys of the section, but for those that the section has longer ones for.
    const MixRule rule = in_stages ? in_runs(config.mixing.rule) : config.mixing.rule;
    for (const Problem& problem : problems_of(rule, peers)) {
      const std::string path = "mixing." + problem.place;
      if (!is_sound(path)) continue;
      // Stages have no memory that another remedy might ask for.
      const bool by_codec = in_stages && problem.place == "codec";
      report(line_of(path), path, problem.reason,
             by_codec ? "write codec = \"fp16\", \"bf16\" or \"qsgd\"" : problem.remedy);
    }
    if (in_stages) {
      parsed_.config.pipeline.mode.rule = rule;
      return;
    }
    const MixTraits traits = traits_of(rule);
    const std::string correction(to_string(rule.correction));
    if (traits.plain_steps && config.train.optimizer.kind != OptimizerKind::sgd &&
        is_sound("train.optimizer")) {
      report(line_of("train.optimizer"), "train.optimizer",
             "\"" + correction + "\" has a momentum of its own, and two would add up",
             "write optimizer = \"sgd\"");
    }
    if (traits.one_by_one && config.mixing.period != 1 && is_sound("mixing.period_steps")) {
      report(line_of("mixing.period_steps"), "mixing.period_steps",
             "\"" + correction + "\" mixes what every step comes to", "write period_steps = 1");
    }
  }

  void check_network() {
    const NetworkConfig& network = parsed_.config.network;
    if (network.lane != LaneKind::plain || network.trusted || !is_sound("network.trusted")) return;
    report(line_of("network.lane"), "network.lane", "\"plain\" on a network that is not trusted",
           "write trusted = true if nobody can listen in, else lane = \"tls\"");
  }

  // ---- Data files ----

  /// The numbers of training and test files that a kind of data has; 0 = one or more.
  struct FileCounts {
    std::size_t train = 0, test = 0;
    std::string_view words;
  };

  void fill_in_names(DataConfig& data) {
    std::vector<std::string> train, test;
    if (data.kind == DataKind::idx) {
      train = {"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"};
      test = {"t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"};
    } else if (data.kind == DataKind::cifar10) {
      for (int i = 1; i <= 5; ++i) train.push_back("data_batch_" + std::to_string(i) + ".bin");
      test = {"test_batch.bin"};
    } else if (data.kind == DataKind::csv) {
      train = {"train.csv"};
      test = {"test.csv"};
    }
    if (!is_given("data.train_files")) data.train_files = std::move(train);
    if (!is_given("data.test_files")) data.test_files = std::move(test);
  }

  void find_data_files() {
    DataConfig& data = parsed_.config.data;
    if (!is_sound("data.kind") || data.kind == DataKind::generated) return;
    if (!is_given("data.folder")) {
      return report(line_of("data.kind"), "data.folder", "missing: where the data files are",
                    "add folder = \"/path/to/the/files\"");
    }
    if (!is_sound("data.folder")) return;
    fill_in_names(data);
    const std::filesystem::path folder(data_folder_.empty() ? data.folder : data_folder_);
    const std::filesystem::path here = std::filesystem::path(name_).parent_path();
    const bool is_from_here = folder.is_absolute() || !data_folder_.empty();
    data.folder = (is_from_here ? folder : here / folder).lexically_normal().string();
    const FileCounts counts = data.kind == DataKind::idx   ? FileCounts{2, 2, "images and labels"}
                              : data.kind == DataKind::csv ? FileCounts{1, 1, "one file"}
                                                           : FileCounts{0, 0, "at least one file"};
    find_files("data.train_files", data.folder, data.train_files, counts.train, counts.words);
    if (data.kind == DataKind::text && !is_given("data.test_files")) return;
    find_files("data.test_files", data.folder, data.test_files, counts.test, counts.words);
  }

  void find_files(const std::string& path, const std::string& folder,
                  const std::vector<std::string>& files, std::size_t wanted,
                  std::string_view words) {
    if (!is_sound(path)) return;
    if (wanted != 0 ? files.size() != wanted : files.empty()) {
      return report(line_of(path), path, "lists " + std::to_string(files.size()) + " files",
                    "name " + std::string(words));
    }
    const std::size_t line = line_of(is_given(path) ? path : "data.folder");
    for (const std::string& file : files) {
      std::error_code error;
      const std::filesystem::path whole = std::filesystem::path(folder) / file;
      if (std::filesystem::is_regular_file(whole, error)) continue;
      const bool packaged = folder.starts_with("/usr/share/datasets/fashion-mnist");
      report(line, path, "no such file: " + whole.string(),
             packaged ? "install it: apt-get install dataset-fashion-mnist"
                      : "mend data.folder, or name the files in " + path.substr(5));
    }
  }

  std::string name_;
  std::string data_folder_;
  TomlTable root_;
  ParsedConfig parsed_;
  std::map<std::string, Given> given_;
  std::map<std::string, std::size_t> sections_;
};

template <class Object>
void append_rows(std::string& text, const Setting<Object>& setting, const Object& defaults) {
  std::string meaning(setting.meaning);
  if (!setting.effective_with.empty()) {
    meaning += "; only with " + std::string(setting.effective_with);
  }
  text += "| `" + std::string(setting.key) + "` | " + setting.type + " | `" +
          setting.show(defaults) + "` | " + meaning + " |\n";
}

}  // namespace

ParsedConfig parse_config_text(std::string_view text, std::string_view name,
                               std::string_view data_folder) {
  return Reading(text, name, data_folder).run();
}

ParsedConfig parse_config_file(const std::string& path) {
  ParsedConfig failed;
  const auto text = read_text_file(path, "config", failed.problems);
  return text ? parse_config_text(*text, path) : failed;
}

Config default_config() {
  ParsedConfig parsed = parse_config_text(default_config_text(), "default.toml");
  check(parsed.problems.empty(), "the built-in config has a problem");
  return std::move(parsed.config);
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
  spec.loss = model.loss;
  return spec;
}

bool mixes_stages(const Config& config) {
  return config.run.mode == ModeKind::pipeline &&
         config.pipeline.mode.consensus == StageConsensus::mixing;
}

std::uint64_t steps_of(const Config& config, std::size_t shard_samples) {
  if (config.run.steps != 0) return config.run.steps;
  const double steps = config.run.epochs * static_cast<double>(shard_samples) /
                       static_cast<double>(config.train.batch);
  return static_cast<std::uint64_t>(std::max(1.0, std::round(steps)));
}

std::size_t lockstep_batch_max(const Config& config) { return 4 * config.train.batch; }

std::vector<std::pair<std::string, std::string>> agreement(const Config& config) {
  std::vector<std::pair<std::string, std::string>> fields;
  for (const Setting<Config>& setting : config_settings()) {
    // In lockstep all must make the same steps, and as many of them.
    const bool of_steps =
        setting.section == "train" ||
        (setting.section == "run" &&
         (setting.key == "steps" || setting.key == "epochs" || setting.key == "peers"));
    // Whoever copies another takes over what its optimiser keeps.
    const bool is_copied = config.gossip.population.is_on() && setting.section == "train" &&
                           setting.key == "optimizer";
    const bool agrees =
        setting.agrees || is_copied || (config.run.mode != ModeKind::gossip && of_steps);
    if (!agrees || (setting.has_effect && !setting.has_effect(config))) continue;
    fields.emplace_back(std::string(setting.section) + "." + std::string(setting.key),
                        setting.show(config));
  }
  if (config.model.kind == ModelKind::layers) {
    fields.emplace_back("model.layers", to_string(config.model.layers));
  }
  return fields;
}

std::uint64_t agreement_hash(const Config& config) {
  std::uint64_t hash = 0;
  for (const auto& [key, value] : agreement(config)) {
    hash = hash_combine(hash, stable_hash(key));
    hash = hash_combine(hash, stable_hash(value));
  }
  return hash;
}

std::string config_reference() {
  const std::string head = "| Key | Value | Default | Meaning |\n|---|---|---|---|\n";
  std::string text;
  std::string_view section;
  for (const Setting<Config>& setting : config_settings()) {
    if (setting.section != section) {
      text += (text.empty() ? "## [" : "\n## [") + std::string(setting.section) + "]\n\n" + head;
      section = setting.section;
    }
    append_rows(text, setting, Config{});
  }
  text +=
      "\n## [[model.layers]]\n\nOne table for each layer, first to last; only with model.kind = "
      "\"layers\".\n\n" +
      head;
  for (const Setting<LayerSpec>& setting : layer_settings())
    append_rows(text, setting, LayerSpec{});
  return text;
}

}  // namespace gv
