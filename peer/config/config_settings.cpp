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
          "number of peers; the training data is cut into this many shards");
  run.only_with("run.steps", "steps = 0 (or no steps at all)",
                [](const Config& c) { return c.run.steps == 0; })
      .add("epochs", GV_FIELD(run.epochs), {0, 100000, true},
           "passes over all training data, by all peers together; with budget = \"peer\" each "
           "peer's passes over its own shard");
  run.add("steps", GV_FIELD(run.steps), {0, 1e12},
          "number of steps, instead of epochs: together all peers make run.peers times as many, so "
          "each makes this many if all are equally fast; with budget = \"peer\" each makes exactly "
          "this many; in a pipeline the number of pipeline runs. 0 = by epochs");
  std::vector<std::pair<std::string, ModeKind>> modes;
  for (const ModeName& mode : mode_names()) modes.emplace_back(mode.name, mode.kind);
  run.agreed().choice("mode", GV_FIELD(run.mode), std::move(modes),
                      "how peers train together: gossip = each at its own pace, with exchanges in "
                      "pairs; allreduce = all make every step together; pipeline = each has a part "
                      "of the model; mixing = local steps, then a round of mixing with neighbours");
  std::vector<std::pair<std::string, std::string>> algorithms = {{"", ""}};
  for (const NamedAlgorithm& known : named_algorithms()) {
    algorithms.emplace_back(known.name, known.name);
  }
  run.choice("algorithm", GV_FIELD(run.algorithm), std::move(algorithms),
             "start from the settings of this published algorithm; `grapevine algorithms` lists "
             "all; keys in this file override its settings",
             "a name from the list, as \"choco\"");
  run.with("run.mode", {"gossip", "allreduce", "mixing"})
      .agreed()
      .choice("budget", GV_FIELD(run.budget), named_choices(budget_names),
              "peer = each peer counts its own epochs or steps; swarm = those of all peers "
              "together count, and all peers stop together and end with the mean of their models");
  run.only_with("run.budget", "a budget of all peers together, or a pipeline", has_common_end)
      .agreed()
      .add("wall_s", GV_FIELD(run.wall), {0, 1e7},
           "end after this many seconds of training, if the epochs or steps last longer; the "
           "learning rate does not follow it. 0 = never");
  run.only_with("run.budget", "a budget of all peers together, or a pipeline", has_common_end)
      .agreed()
      .add(
          "target_accuracy", GV_FIELD(run.target), {0, 1},
          "end when more than half of the peers have measured this accuracy of their models on the "
          "test data (R2 for data with targets), if the epochs or steps last longer; in a pipeline "
          "the peers with the last stage measure; the learning rate does not follow it. 0 = never");
  run.only_with("run.target_accuracy", "a target accuracy", has_target)
      .agreed()
      .add("target_every_epochs", GV_FIELD(run.target_every), {0, 1e6, true},
           "passes over all data, by all peers together, between two measurements by three peers "
           "drawn at random, or by all peers of a pipeline; more passes if a measurement takes "
           "longer, and fewer if the budget is less than eight times as long");
  run.add("wait_for_peers", GV_FIELD(run.wait_for_peers), {1, 4096},
          "a peer starts training when this many peers have joined, itself included");
  run.add("wait_max_s", GV_FIELD(run.wait_max), {0, 86400},
          "longest time that a peer waits for the peers of wait_for_peers");
  run.add("linger_s", GV_FIELD(run.linger), {0, 86400},
          "how long a peer that has finished keeps answering slower peers");
  run.add("folder", GV_FIELD(run.folder),
          "where events, metrics and checkpoints go, below the current folder");
  run.add("events_mib", GV_FIELD(run.events_mib), {1, 1048576},
          "most disk space that a peer's events take; they are in four files, of which the oldest "
          "is deleted first");
}

void append_membership(Settings& all) {
  const Keys membership{all, "membership"};
  membership.add("probe_period_s", GV_FIELD(membership.probe_period), {0.01, 3600},
                 "time between two probes, each of one member");
  membership.add("probe_timeout_s", GV_FIELD(membership.probe_timeout), {0.001, 3600},
                 "how long a peer waits for the answer to a probe before it asks others to probe; "
                 "must be below the period");
  membership.add("indirect_probes", GV_FIELD(membership.indirect_probes), {0, 100},
                 "how many other peers a peer asks to probe a silent member");
  membership.add(
      "suspicion_min_s", GV_FIELD(membership.suspicion_min), {0.01, 3600},
      "time from suspected to dead in a swarm of two peers; it grows with the number of peers");
  membership.add("suspicion_max_factor", GV_FIELD(membership.suspicion_max_factor), {1, 1000},
                 "factor by which the time from suspected to dead is longer while no other peer "
                 "confirms the suspicion");
  membership.add("push_pull_period_s", GV_FIELD(membership.push_pull_period), {0.1, 86400},
                 "time between two full comparisons of the tables of members; longer once training "
                 "has ended if there are many peers");
  membership.add("forget_dead_s", GV_FIELD(membership.forget_dead_after), {1, 1e7},
                 "how long dead peers are remembered");
}

void append_rest(Settings& all) {
  const Keys network{all, "network"};
  network.add("trusted", GV_FIELD(network.trusted),
              "true = no stranger can listen on the network, so models may travel unencrypted");
  network.choice("lane", GV_FIELD(network.lane), named_choices(lane_names),
                 "kind of connection for models and gradients; auto: unix on one host, else plain "
                 "if trusted, else tls");
  network.add("budget_mib", GV_FIELD(network.budget_mib), {1, 1048576},
              "memory for blocks on their way, for all lanes together");
  network.add("idle_close_s", GV_FIELD(network.idle_close_s), {1, 86400},
              "time after which links without traffic are closed");
  const Keys checkpoint{all, "checkpoint"};
  checkpoint.add("every_steps", GV_FIELD(checkpoint.every_steps), {0, 1e12},
                 "local steps between two checkpoints; 0 = only at the end");
  checkpoint.add("keep", GV_FIELD(checkpoint.keep), {1, 1000},
                 "number of checkpoints to keep; older ones are deleted");
  Keys{all, "metrics"}.add(
      "every_s", GV_FIELD(metrics.every_s), {0.1, 86400},
      "time between two lines of output, and between two updates of the metrics file");
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
