// Puts the table together: which key sets which field, in what range, and what it means.
#include "peer/config/config_settings.hpp"

#include <string>
#include <utility>
#include <vector>

#include "peer/config/algorithms.hpp"
#include "peer/config/setting_sections.hpp"

namespace gv {
namespace {

using namespace settings;

void append_run(Settings& all) {
  const Section<Config> run{"run"};
  all.push_back(agreed(run.whole("seed", GV_FIELD(run.seed), {0},
                                 "fixes the first model, the order of samples and the pairing")));
  all.push_back(run.whole("peers", GV_FIELD(run.peers), {1, 4096},
                          "shards the training data is cut into, one for each peer"));
  all.push_back(only_with(
      "run.steps", "steps = 0 (or no steps at all)",
      [](const Config& c) { return c.run.steps == 0; },
      run.number(
          "epochs", GV_FIELD(run.epochs), {0, 100000, true},
          "passes of a peer over its own shard; in a pipeline a pass is as many samples as the "
          "training data have")));
  all.push_back(
      run.whole("steps", GV_FIELD(run.steps), {0, 1e12},
                "local steps of each peer, or runs of a pipeline, instead of epochs; 0 = by "
                "epochs"));
  std::vector<std::pair<std::string, ModeKind>> modes;
  for (const ModeName& mode : mode_names()) modes.emplace_back(mode.name, mode.kind);
  all.push_back(agreed(run.choice<>(
      "mode", GV_FIELD(run.mode), modes,
      "each at its own pace with a partner now and then, all in lockstep, each with a part of the "
      "model, or in rounds of mixing with neighbours")));
  std::vector<std::pair<std::string, std::string>> algorithms = {{"", ""}};
  for (const NamedAlgorithm& known : named_algorithms()) {
    algorithms.emplace_back(known.name, known.name);
  }
  Setting<Config> algorithm =
      run.choice<>("algorithm", GV_FIELD(run.algorithm), std::move(algorithms),
                   "begin with the settings of this one, `grapevine algorithms` lists them; keys "
                   "that are written here replace its own");
  algorithm.type = "a name from the list, as \"choco\"";
  all.push_back(std::move(algorithm));
  all.push_back(run.whole("wait_for_peers", GV_FIELD(run.wait_for_peers), {1, 4096},
                          "training starts when this many are there, itself included"));
  all.push_back(
      run.duration("wait_max_s", GV_FIELD(run.wait_max), {0, 86400}, "or after this long"));
  all.push_back(run.duration("linger_s", GV_FIELD(run.linger), {0, 86400},
                             "how long a peer that is done serves slower ones"));
  all.push_back(run.text("folder", GV_FIELD(run.folder),
                         "where events, metrics and checkpoints go, below the current folder"));
}

void append_membership(Settings& all) {
  const Section<Config> membership{"membership"};
  all.push_back(membership.duration("probe_period_s", GV_FIELD(membership.probe_period),
                                    {0.01, 3600}, "one member is probed this often"));
  all.push_back(
      membership.duration("probe_timeout_s", GV_FIELD(membership.probe_timeout), {0.001, 3600},
                          "wait for its answer before others are asked; below the period"));
  all.push_back(membership.whole("indirect_probes", GV_FIELD(membership.indirect_probes), {0, 100},
                                 "how many others are asked"));
  all.push_back(
      membership.duration("suspicion_min_s", GV_FIELD(membership.suspicion_min), {0.01, 3600},
                          "from suspected to dead for two peers; grows with their number"));
  all.push_back(membership.number("suspicion_max_factor", GV_FIELD(membership.suspicion_max_factor),
                                  {1, 1000}, "times longer while nobody else confirms"));
  all.push_back(membership.duration("push_pull_period_s", GV_FIELD(membership.push_pull_period),
                                    {0.1, 86400}, "between two full comparisons of members"));
  all.push_back(membership.duration("forget_dead_s", GV_FIELD(membership.forget_dead_after),
                                    {1, 1e7}, "how long the dead are remembered"));
}

void append_rest(Settings& all) {
  const Section<Config> network{"network"};
  all.push_back(network.flag("trusted", GV_FIELD(network.trusted),
                             "nobody can listen in: models may travel unencrypted"));
  all.push_back(network.choice<>(
      "lane", GV_FIELD(network.lane),
      std::vector<std::pair<std::string, LaneKind>>{{"auto", LaneKind::automatic},
                                                    {"tls", LaneKind::tls},
                                                    {"plain", LaneKind::plain},
                                                    {"unix", LaneKind::unix_socket}},
      "auto: unix on one host, else plain if trusted, else tls"));
  all.push_back(network.whole("budget_mib", GV_FIELD(network.budget_mib), {1, 1048576},
                              "memory for blocks on their way, all lanes together"));
  all.push_back(network.number("idle_close_s", GV_FIELD(network.idle_close_s), {1, 86400},
                               "links without traffic are closed after this"));
  const Section<Config> checkpoint{"checkpoint"};
  all.push_back(checkpoint.whole("every_steps", GV_FIELD(checkpoint.every_steps), {0, 1e12},
                                 "local steps between two checkpoints; 0 = only at the end"));
  all.push_back(
      checkpoint.whole("keep", GV_FIELD(checkpoint.keep), {1, 1000}, "older ones are deleted"));
  const Section<Config> metrics{"metrics"};
  all.push_back(metrics.number("every_s", GV_FIELD(metrics.every_s), {0.1, 86400},
                               "between two lines and two rewrites of the metrics file"));
}

Settings make_config_settings() {
  Settings all;
  append_run(all);
  append_data(all);
  append_generated(all);
  append_model(all);
  append_train(all);
  append_schedule(all);
  append_gossip(all);
  append_population(all);
  append_allreduce(all);
  append_mixing(all);
  append_pipeline(all);
  append_membership(all);
  append_rest(all);
  return all;
}

}  // namespace

std::span<const Setting<Config>> config_settings() {
  static const Settings settings = make_config_settings();
  return settings;
}

}  // namespace gv
