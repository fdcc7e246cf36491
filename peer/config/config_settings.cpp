// Assembles the table of settings: each key's field, range and meaning.
#include "peer/config/config_settings.hpp"

#include <string>
#include <utility>
#include <vector>

#include "peer/config/algorithms.hpp"
#include "peer/config/setting_builders.hpp"

namespace gv {
namespace {

using namespace settings;

void append_run(Settings& all) {
  const Keys run{all, "run"};
  run.agreed().add("seed", GV_FIELD(run.seed),
                   "fixes the first model, the order of samples and the pairing");
  run.add("peers", GV_FIELD(run.peers), {1, run_peers_max},
          "shards the training data is cut into, one for each peer");
  run.only_with("run.steps", "steps = 0 (or no steps at all)",
                [](const Config& c) { return c.run.steps == 0; })
      .add("epochs", GV_FIELD(run.epochs), {0, 100000, true},
           "passes over all training data, by all peers together; with budget = \"peer\" those of "
           "a peer over its own shard");
  run.add("steps", GV_FIELD(run.steps), {0, 1e12},
          "instead of epochs: steps of each peer if all are alike, so that all make run.peers "
          "times as many together; with budget = \"peer\" exactly those of each; in a pipeline its "
          "runs. 0 = by epochs");
  std::vector<std::pair<std::string, ModeKind>> modes;
  for (const ModeName& mode : mode_names()) modes.emplace_back(mode.name, mode.kind);
  run.agreed().choice(
      "mode", GV_FIELD(run.mode), std::move(modes),
      "each at its own pace with a partner now and then, all in lockstep, each with a part of the "
      "model, or in rounds of mixing with neighbours");
  std::vector<std::pair<std::string, std::string>> algorithms = {{"", ""}};
  for (const NamedAlgorithm& known : named_algorithms()) {
    algorithms.emplace_back(known.name, known.name);
  }
  run.choice("algorithm", GV_FIELD(run.algorithm), std::move(algorithms),
             "begin with the settings of this one, `grapevine algorithms` lists them; keys that "
             "are written here replace its own",
             "a name from the list, as \"choco\"");
  run.with("run.mode", {"gossip", "allreduce", "mixing"})
      .agreed()
      .choice("budget", GV_FIELD(run.budget), named_choices(budget_names),
              "whose epochs or steps are counted: each peer's own, or those of all peers together, "
              "which then stop together and end with the mean of their models");
  run.only_with("run.budget", "a budget of all peers together, or a pipeline", has_common_end)
      .agreed()
      .add("wall_s", GV_FIELD(run.wall), {0, 1e7},
           "end after this many seconds of training, if the epochs or steps last longer; the "
           "learning "
           "rate does not follow it. 0 = never");
  run.only_with("run.budget", "a budget of all peers together, or a pipeline", has_common_end)
      .agreed()
      .add("target_accuracy", GV_FIELD(run.target), {0, 1},
           "end when more than half of the peers, in a pipeline of those with the last stage, have "
           "measured this accuracy of their models on the test data (R2 of data with targets), if "
           "the epochs or steps last longer; the learning rate does not follow it. 0 = never");
  run.only_with("run.target_accuracy", "a target accuracy", has_target)
      .agreed()
      .add("target_every_epochs", GV_FIELD(run.target_every), {0, 1e6, true},
           "passes over all data, by all peers together, after which three drawn peers measure "
           "their models, or all peers of a pipeline its; more passes where a measurement takes "
           "longer");
  run.add("wait_for_peers", GV_FIELD(run.wait_for_peers), {1, 4096},
          "training starts when this many are there, itself included");
  run.add("wait_max_s", GV_FIELD(run.wait_max), {0, 86400}, "or after this long");
  run.add("linger_s", GV_FIELD(run.linger), {0, 86400},
          "how long a peer that is done serves slower ones");
  run.add("folder", GV_FIELD(run.folder),
          "where events, metrics and checkpoints go, below the current folder");
  run.add("events_mib", GV_FIELD(run.events_mib), {1, 1048576},
          "most that a peer's events take on disk; the oldest of four files goes first");
}

void append_membership(Settings& all) {
  const Keys membership{all, "membership"};
  membership.add("probe_period_s", GV_FIELD(membership.probe_period), {0.01, 3600},
                 "one member is probed this often");
  membership.add("probe_timeout_s", GV_FIELD(membership.probe_timeout), {0.001, 3600},
                 "wait for its answer before others are asked; below the period");
  membership.add("indirect_probes", GV_FIELD(membership.indirect_probes), {0, 100},
                 "how many others are asked");
  membership.add("suspicion_min_s", GV_FIELD(membership.suspicion_min), {0.01, 3600},
                 "from suspected to dead for two peers; grows with their number");
  membership.add("suspicion_max_factor", GV_FIELD(membership.suspicion_max_factor), {1, 1000},
                 "times longer while no other peer confirms");
  membership.add("push_pull_period_s", GV_FIELD(membership.push_pull_period), {0.1, 86400},
                 "between two full comparisons of members; longer after the end if they are many");
  membership.add("forget_dead_s", GV_FIELD(membership.forget_dead_after), {1, 1e7},
                 "how long the dead are remembered");
}

void append_rest(Settings& all) {
  const Keys network{all, "network"};
  network.add("trusted", GV_FIELD(network.trusted),
              "nobody can listen in: models may travel unencrypted");
  network.choice("lane", GV_FIELD(network.lane), named_choices(lane_names),
                 "auto: unix on one host, else plain if trusted, else tls");
  network.add("budget_mib", GV_FIELD(network.budget_mib), {1, 1048576},
              "memory for blocks on their way, all lanes together");
  network.add("idle_close_s", GV_FIELD(network.idle_close_s), {1, 86400},
              "links without traffic are closed after this");
  const Keys checkpoint{all, "checkpoint"};
  checkpoint.add("every_steps", GV_FIELD(checkpoint.every_steps), {0, 1e12},
                 "local steps between two checkpoints; 0 = only at the end");
  checkpoint.add("keep", GV_FIELD(checkpoint.keep), {1, 1000}, "older ones are deleted");
  Keys{all, "metrics"}.add("every_s", GV_FIELD(metrics.every_s), {0.1, 86400},
                           "between two lines and two rewrites of the metrics file");
}

}  // namespace

std::span<const Setting<Config>> config_settings() {
  static const Settings settings = [] {
    Settings all;
    for (const auto append : {append_run, append_data, append_generated, append_model, append_train,
                              append_schedule, append_gossip, append_population, append_allreduce,
                              append_mixing, append_pipeline, append_membership, append_rest}) {
      append(all);
    }
    return all;
  }();
  return settings;
}

}  // namespace gv
