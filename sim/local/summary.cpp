// Evaluates every peer's model and their mean, and measures the models' spread.
#include "sim/local/summary.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/fingerprint.hpp"
#include "base/printable.hpp"
#include "peer/config/task.hpp"
#include "peer/host/evaluate.hpp"
#include "peer/host/peer_json.hpp"
#include "peer/host/replace_file.hpp"
#include "peer/node/facts.hpp"
#include "sim/local/mode_columns.hpp"
#include "sim/local/model_history.hpp"
#include "sim/local/whole_model.hpp"
#include "train/evaluation.hpp"
#include "train/model.hpp"

namespace gv {
namespace {

using Json = nlohmann::ordered_json;

/// A peer's last model and its result.
struct FinishedPeer {
  std::string name;
  Ending ending;
  std::string by_fault;  ///< How a fault ended the peer. Empty if no fault did.
  std::uint64_t untold_bytes = 0;
  LastModel last;
  std::optional<Merit> merit;  ///< Merit on the test samples. Empty if the peer left no model.
  double loss = 0;
  Json result = Json::object();  ///< The peer's result.json. Empty if the peer was killed.

  bool is_clean() const { return ending.signal == 0 && ending.exit_code == 0; }
};

FinishedPeer finish(const PeerOutcome& outcome, Model& model, const DataSet& test,
                    const std::vector<SlicedStage>& stages) {
  FinishedPeer peer{.name = outcome.name,
                    .ending = outcome.ending,
                    .by_fault = outcome.by_fault,
                    .untold_bytes = outcome.untold_bytes};
  std::ifstream file(outcome.folder / "result.json");
  if (file) {
    Json json = parse_peer_json<Json>(file);
    if (json.is_object()) peer.result = std::move(json);
  }
  peer.last = read_last_model(outcome.folder, model.layout(), stages);
  if (peer.last.parameters.empty()) return peer;
  const Score score = evaluate(model, peer.last.parameters, test);
  peer.merit = merit_of(score, test);
  peer.loss = score.mean_loss();
  return peer;
}

std::uint64_t number(const Json& json, const char* group, const char* name) {
  return json.value(group, Json::object()).value(name, std::uint64_t{0});
}

/// Replaces counts in `result` with counts of events, which cover all incarnations. Killed
/// incarnations left no result.
void count_all_lives(const EventCounts& events, Json& result) {
  const auto times = [&](const std::string& event) {
    const auto found = events.find(event);
    return found == events.end() ? std::uint64_t{0} : found->second;
  };
  Json exchanges;
  exchanges["committed"] = times(fact_name<ExchangeCommitted>());
  exchanges["refused"] = times(fact_name<ExchangeRefused>());
  exchanges["aborted"] = times(fact_name<ExchangeAborted>());
  exchanges["undecided"] = times(fact_name<ExchangeUndecided>());
  result["exchanges"] = exchanges;
  result[result.contains("mixing") ? "mixing" : "allreduce"]["states_adopted"] =
      times(fact_name<StateAdopted>());
  result["failures_seen"] = times(fact_name<MemberDead>());
  if (!result.contains("columns")) return;
  for (Json& column : result["columns"]) {
    if (column["head"] == "exchanges") column["text"] = exchanges["committed"].dump();
    if (column["head"] == "refused") column["text"] = exchanges["refused"].dump();
  }
}

/// Figures over all peers: sums or, where all peers count the same collectives, maxima.
struct Totals {
  std::uint64_t steps = 0;
  std::uint64_t committed = 0;
  std::uint64_t refused = 0;
  std::uint64_t aborted = 0;
  std::uint64_t undecided = 0;
  std::uint64_t steps_together = 0;
  std::uint64_t losses = 0;
  std::uint64_t states_adopted = 0;
  std::uint64_t steps_lost = 0;
  std::uint64_t bytes = 0;
  std::uint64_t seen_dead = 0;
  std::size_t failures = 0;

  void add(const FinishedPeer& peer) {
    failures += !peer.is_clean() && peer.by_fault.empty();
    steps += peer.result.value("step", std::uint64_t{0});
    committed += number(peer.result, "exchanges", "committed");
    refused += number(peer.result, "exchanges", "refused");
    aborted += number(peer.result, "exchanges", "aborted");
    undecided += number(peer.result, "exchanges", "undecided");
    steps_together = std::max(steps_together, peer.result.value("step", std::uint64_t{0}));
    for (const char* mode : {"allreduce", "pipeline", "mixing"}) {
      losses = std::max(losses, number(peer.result, mode, "losses"));
      states_adopted += number(peer.result, mode, "states_adopted");
      steps_lost = std::max(steps_lost, number(peer.result, mode, "steps_lost"));
    }
    bytes += sent_by(peer);
    seen_dead += peer.result.value("failures_seen", std::uint64_t{0});
  }

  static std::uint64_t sent_by(const FinishedPeer& peer) {
    return peer.untold_bytes + number(peer.result, "bytes", "lanes_sent");
  }
};

std::string end_of(const FinishedPeer& peer) {
  if (!peer.by_fault.empty()) return peer.by_fault;
  return peer.is_clean() ? "clean" : to_string(peer.ending);
}

void print_table(const std::vector<FinishedPeer>& peers, ModeKind mode, bool labelled) {
  const bool whole = mode != ModeKind::pipeline;  // In a pipeline no peer has a whole model.
  ModeColumns columns;
  for (const FinishedPeer& peer : peers) columns.fit(peer.result);
  fmt::print("\n{:<12}{} {:>9}{} {:>9}  {}\n", "peer",
             whole ? fmt::format(" {:>9} {:>8}", labelled ? "accuracy" : "R2", "loss") : "",
             "steps", columns.head(), "MB sent", "end");
  for (const FinishedPeer& peer : peers) {
    const double merit = peer.merit ? peer.merit->value : 0;
    const std::string shown =
        labelled ? fmt::format(" {:>7.2f} %", 100 * merit) : fmt::format(" {:>9.4f}", merit);
    fmt::print("{:<12}{} {:>9}{} {:>9.1f}  {}\n", peer.name,
               whole ? fmt::format("{} {:>8.4f}", shown, peer.loss) : "",
               peer.result.value("step", std::uint64_t{0}), columns.cells(peer.result),
               static_cast<double>(Totals::sent_by(peer)) / 1e6, end_of(peer));
  }
}

/// The final model that the largest number of peers share.
struct OneModel {
  std::uint64_t fingerprint = 0;
  std::size_t peers = 0;
};

/// The result of a run whose mean model was evaluated.
struct Result {
  const Config& config;
  const std::vector<FinishedPeer>& peers;
  const Totals& totals;
  const FinishedPeer* worst;  ///< The worst peer that has a model; null if there is none.
  const Score& score;         ///< The score of the mean model.
  Merit merit;                ///< The merit of the mean model.
  double spread;
  double wall_s;
  bool has_faults;  ///< True if faults were injected.

  bool lockstep() const { return config.run.mode != ModeKind::gossip; }
  bool is_of_swarm() const { return has_swarm_budget(config); }
  OneModel one_model() const {
    std::map<std::uint64_t, std::size_t> ends;
    OneModel most;
    for (const FinishedPeer& peer : peers) {
      if (peer.last.parameters.empty()) continue;
      const std::uint64_t own = fingerprint(peer.last.parameters);
      if (++ends[own] > most.peers) most = {own, ends[own]};
    }
    return most;
  }
  /// Number of exchanges. Both peers of an exchange count it, so halve the count.
  std::uint64_t exchanges() const { return totals.committed / 2; }
};

/// How often the peers trained on the samples of leased data.
struct LedgerTotals {
  std::uint64_t samples = 0;  ///< Samples in all passes over the data. 0 if no peer took chunks.
  std::uint64_t trained = 0;  ///< Samples that were trained on at least once.
  std::uint64_t again = 0;    ///< Number of times that a sample was trained on again.
  /// False if some process left no count, so the true counts may be larger.
  bool is_complete = true;
  /// For each dead peer: an upper bound on the samples that it had taken but not passed on. Other
  /// peers could take these samples again.
  std::map<std::string, std::uint64_t> lost_with;
  /// For each peer: the samples that it lost when it replaced its own model.
  std::map<std::string, std::uint64_t> lost_by;
};

/// Adds this peer's report of lost chunks. All peers report the same deaths, so for each dead peer
/// the largest figure counts.
void add_losses(const FinishedPeer& peer, LedgerTotals& totals) {
  const std::uint64_t chunk = number(peer.result, "ledger", "chunk_samples");
  const std::uint64_t own = chunk * number(peer.result, "ledger", "lost");
  if (own > 0) totals.lost_by[peer.name] = own;
  for (const Json& member : peer.result.value("members", Json::array())) {
    const std::uint64_t freed = chunk * number(member, "work", "chunks_freed");
    if (freed == 0) continue;
    std::uint64_t& most = totals.lost_with[printable(member.value("name", ""))];
    most = std::max(most, freed);
  }
}

/// The totals over all peers. They are 0 in modes in which no peer takes chunks.
LedgerTotals ledger_totals(const Result& result) {
  LedgerTotals totals{.is_complete = !result.has_faults};
  std::uint64_t all = 0;       // Trained since the peers' last starts.
  std::uint64_t begun = 0;     // Trained in chunks that are not done.
  std::uint64_t restored = 0;  // Done before the last starts, as far as checkpoints say.
  std::uint64_t restored_begun = 0;
  bool are_resumed = true;
  for (const FinishedPeer& peer : result.peers) {
    if (!peer.result.contains("ledger")) {
      totals.is_complete = false;
      continue;
    }
    const std::uint64_t done =
        number(peer.result, "ledger", "done") * number(peer.result, "ledger", "chunk_samples");
    totals.samples = number(peer.result, "work", "budget");
    totals.trained = std::max(totals.trained, std::min(done, totals.samples));
    all += number(peer.result, "work", "own");
    begun += number(peer.result, "ledger", "begun_samples");
    const std::uint64_t done_before = number(peer.result, "ledger", "restored_samples");
    const std::uint64_t begun_before = number(peer.result, "ledger", "restored_begun_samples");
    are_resumed &= done_before + begun_before > 0;
    restored = std::max(restored, done_before);
    restored_begun += begun_before;
    add_losses(peer, totals);
  }
  // If only some peers were started again, the counts of the other peers already include the
  // samples that the restarted peers restored.
  const std::uint64_t before = are_resumed ? restored + restored_begun : 0;
  const std::uint64_t once = std::max(totals.trained + begun, before) - before;
  totals.again = std::max(all, once) - once;
  return totals;
}

void print_ledger(const LedgerTotals& totals) {
  if (totals.samples == 0) return;
  fmt::print("ledger       {} samples: trained {}, again {}{}, never {}\n", totals.samples,
             totals.trained, totals.is_complete ? "" : "at least ", totals.again,
             totals.samples - totals.trained);
  std::string lost;
  const auto add = [&lost](const std::string& text) { lost += (lost.empty() ? "" : "; ") + text; };
  for (const auto& [name, samples] : totals.lost_with) {
    add(fmt::format("with {} at most {} samples, free for others again", name, samples));
  }
  for (const auto& [name, samples] : totals.lost_by) {
    add(fmt::format("with the old model of {} {} samples", name, samples));
  }
  if (!lost.empty()) fmt::print("lost         {}\n", lost);
}

/// Prints the peers' shares of the swarm's budget, and how many peers end with the same model.
void print_work(const Result& result) {
  const auto own = [](const FinishedPeer& peer) { return number(peer.result, "work", "own"); };
  std::uint64_t all = 0;
  std::uint64_t counted = 0;  // Includes samples from before peers were started again.
  for (const FinishedPeer& peer : result.peers) {
    all += own(peer);
    counted = std::max(counted, number(peer.result, "work", "counted"));
  }
  std::string shares;
  for (const FinishedPeer& peer : result.peers) {
    const double share =
        all > 0 ? 100 * static_cast<double>(own(peer)) / static_cast<double>(all) : 0;
    shares += fmt::format("{}{} {:.1f} %", shares.empty() ? "" : ", ", peer.name, share);
  }
  const std::string last =
      counted > all ? fmt::format(", {} since the peers' last starts", all) : "";
  fmt::print("work         {} samples{}: {}\n", std::max(all, counted), last, shares);
  print_ledger(ledger_totals(result));
  const OneModel one = result.one_model();
  if (one.peers == 1 && result.peers.size() > 1) {
    fmt::print("one model    none: the peers' models differ\n");
    return;
  }
  fmt::print("one model    {} of {} peers, fingerprint {:016x}\n", one.peers, result.peers.size(),
             one.fingerprint);
}

/// Prints the merits of the mean model and of the worst peer's model.
void print_merits(const Result& result, const DataSet& test) {
  const double mean = result.merit.value;
  const double worst = result.worst != nullptr ? result.worst->merit->value : 0;
  const std::string rest = fmt::format("on {} test samples, loss {:.4f}{}", result.score.samples,
                                       result.score.mean_loss(), uncertainty(result.score, test));
  const bool labelled = result.merit.name == "accuracy";
  fmt::print("\nmean model   {} {}\n",
             labelled ? fmt::format("{:.2f} % accuracy", 100 * mean) : to_text(result.merit), rest);
  if (result.worst == nullptr) return;
  if (labelled) {
    fmt::print("worst peer   {:.2f} % ({}), {:.2f} points below the mean model\n", 100 * worst,
               result.worst->name, 100 * (mean - worst));
  } else {
    fmt::print("worst peer   {} ({}), {:.4f} below the mean model\n", to_text(*result.worst->merit),
               result.worst->name, mean - worst);
  }
}

/// Prints the figures of the mean model and of the run.
void print_figures(const Result& result, const DataSet& test, bool in_stages) {
  print_merits(result, test);
  fmt::print("spread       {:.4g}\n", result.spread);
  fmt::print("wall time    {:.1f} s\n", result.wall_s);
  if (result.lockstep()) {
    fmt::print("steps        {} together; losses {}; {} sent {}{}\n", result.totals.steps_together,
               result.totals.losses, !in_stages ? "models" : "states of stages",
               result.totals.states_adopted,
               result.totals.steps_lost > 0
                   ? fmt::format("; steps lost {}", result.totals.steps_lost)
                   : "");
  } else {
    fmt::print("steps        {}\n", result.totals.steps);
    if (result.is_of_swarm()) print_work(result);
    fmt::print("exchanges    {} ({} refused, {} aborted, {} undecided)\n", result.exchanges(),
               result.totals.refused, result.totals.aborted, result.totals.undecided);
  }
  if (has_target(result.config)) {
    const double target = result.config.run.target;
    fmt::print("target       {:.4g} {} by the mean model\n", target,
               result.merit.value >= target ? "reached" : "not reached");
  }
  fmt::print("bytes        {:.1f} MB on bulk lanes\n",
             static_cast<double>(result.totals.bytes) / 1e6);
  fmt::print("failures     {} peers did not end cleanly, {} deaths seen by others\n",
             result.totals.failures, result.totals.seen_dead);
}

/// Number of samples on which all peers together have trained.
std::uint64_t samples_of(const Result& result, bool in_stages) {
  const Config& config = result.config;
  if (in_stages) {
    return result.totals.steps_together * config.train.batch * config.pipeline.micro_batches;
  }
  const std::uint64_t at_least = result.totals.steps * config.train.batch;
  if (config.train.schedule.kind != ScheduleKind::growing_batch) return at_least;
  // Only the peers know at which steps their batches grew. After resuming, a peer's "own" count
  // lacks its earlier samples, but its count for all peers includes them.
  std::uint64_t own = 0;
  std::uint64_t counted = 0;
  for (const FinishedPeer& peer : result.peers) {
    own += number(peer.result, "work", "own");
    counted = std::max(counted, number(peer.result, "work", "counted"));
  }
  return std::max({own, counted, at_least});
}

/// The figures of the run as JSON, including each peer's own result.
Json summary_json(const Result& result, bool in_stages) {
  const std::string merit(result.merit.name);
  Json summary{{"mean_" + merit, result.merit.value},
               {"mean_loss", result.score.mean_loss()},
               {"spread", result.spread},
               {"wall_s", result.wall_s},
               {"steps", result.totals.steps},
               {"samples", samples_of(result, in_stages)},
               {"lane_bytes", result.totals.bytes},
               {"failures", result.totals.failures}};
  if (result.worst != nullptr) {
    summary["worst_" + merit] = result.worst->merit->value;
    summary["worst_peer"] = result.worst->name;
  }
  if (result.lockstep()) {
    summary["steps_together"] = result.totals.steps_together;
    summary["losses"] = result.totals.losses;
    summary["states_adopted"] = result.totals.states_adopted;
    if (in_stages) summary["steps_lost"] = result.totals.steps_lost;
  } else {
    summary["exchanges"] = result.exchanges();
    summary["refused"] = result.totals.refused;
    summary["aborted"] = result.totals.aborted;
    summary["undecided"] = result.totals.undecided;
  }
  if (result.is_of_swarm()) {
    const OneModel one = result.one_model();
    summary["one_model"] = {{"peers", one.peers},
                            {"fingerprint", fmt::format("{:016x}", one.fingerprint)}};
  }
  if (const LedgerTotals totals = ledger_totals(result); totals.samples > 0) {
    summary["ledger"] = {{"samples", totals.samples},     {"trained", totals.trained},
                         {"again", totals.again},         {"again_is_complete", totals.is_complete},
                         {"lost_with", totals.lost_with}, {"lost_by", totals.lost_by}};
  }
  for (const FinishedPeer& peer : result.peers) {
    summary["peers"].push_back({{"name", peer.name},
                                {merit, peer.merit ? peer.merit->value : 0},
                                {"loss", peer.loss},
                                {"exit", peer.ending.exit_code},
                                {"signal", peer.ending.signal},
                                {"by_fault", peer.by_fault},
                                {"result", peer.result}});
  }
  return summary;
}

/// The names of the peers whose parameters have been held at their bound.
std::vector<std::string> held_peers(const std::vector<PeerOutcome>& outcomes,
                                    const std::optional<FaultReport>& faults) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const EventCounts events = faults ? faults->events[i] : count_events(outcomes[i].folder, 0);
    if (events.contains(fact_name<ModelHeld>())) names.push_back(outcomes[i].name);
  }
  return names;
}

/// The number of classes of the peers' models; 0 if it is not known.
std::size_t classes_of(const Config& config, const std::vector<PeerOutcome>& outcomes) {
  std::vector<std::filesystem::path> files;
  for (const PeerOutcome& outcome : outcomes) {
    const std::vector<std::filesystem::path> own = checkpoints_of(outcome.folder);
    files.insert(files.end(), own.begin(), own.end());
  }
  return classes_in(config, files);
}

/// Draws how the peers' models have moved, if there are enough checkpoints.
void draw_models(const Config& config, const std::filesystem::path& folder,
                 const std::vector<PeerOutcome>& outcomes, const Layout& layout) {
  if (config.run.mode == ModeKind::pipeline || config.checkpoint.every_steps == 0) return;
  std::vector<std::filesystem::path> folders;
  for (const PeerOutcome& outcome : outcomes) folders.push_back(outcome.folder);
  const ModelPaths paths = read_model_history(folders, layout, config.checkpoint.every_steps);
  if (!paths.can_be_drawn()) return;
  const std::filesystem::path file = folder / "models.svg";
  std::ofstream(file) << paths.svg(fmt::format("{} peers", outcomes.size()), "steps of a peer");
  fmt::print("picture      {}\n", file.string());
}

}  // namespace

bool print_summary(const Config& config, const std::string& config_text,
                   const std::filesystem::path& folder, const std::vector<PeerOutcome>& outcomes,
                   const std::optional<FaultReport>& faults, double wall_s) {
  const TestSet test = load_test_set(config, classes_of(config, outcomes));
  if (!test.problems.empty()) {
    for (const Problem& problem : test.problems) fmt::print(stderr, "{}\n", to_string(problem));
    return false;
  }
  Model model(test.model, test.data->shape, evaluation_batch(*test.data));
  const std::vector<SlicedStage> stages = sliced_stages_of(config, test);
  std::vector<FinishedPeer> peers;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    peers.push_back(finish(outcomes[i], model, *test.data, stages));
    if (faults) count_all_lives(faults->events[i], peers.back().result);
  }

  const ModeKind mode = config.run.mode;
  const bool lockstep = mode != ModeKind::gossip;
  Totals totals;
  const FinishedPeer* worst = nullptr;
  for (const FinishedPeer& peer : peers) {
    totals.add(peer);
    if (peer.merit && (worst == nullptr || peer.merit->value < worst->merit->value)) worst = &peer;
  }
  print_table(peers, mode, takes_labels(config.model.loss));
  std::vector<const LastModel*> models;
  for (const FinishedPeer& peer : peers) models.push_back(&peer.last);
  const WholeModel whole = whole_model(models, stages);
  if (!whole.problem.empty()) {
    fmt::print("{}\n", whole.problem);
    if (faults) print(*faults, lockstep);
    return false;
  }
  const Score score = evaluate(model, whole.parameters, *test.data);
  const std::string problem = write_model(folder / "mean.safetensors", model.layout(),
                                          whole.parameters, run_metadata(config, config_text));
  if (!problem.empty()) {
    fmt::print(stderr, "{}: {}\n", (folder / "mean.safetensors").string(), problem);
  }

  const Result result{.config = config,
                      .peers = peers,
                      .totals = totals,
                      .worst = worst,
                      .score = score,
                      .merit = merit_of(score, *test.data),
                      .spread = whole.spread,
                      .wall_s = wall_s,
                      .has_faults = faults.has_value()};
  print_figures(result, *test.data, !stages.empty());
  const std::vector<std::string> held = held_peers(outcomes, faults);
  if (!held.empty()) {
    fmt::print(
        "held         parameters of {} reached their bound: scale inputs or targets that "
        "are far from 1, or lower train.learning_rate\n",
        fmt::join(held, ", "));
  }
  if (faults) print(*faults, lockstep);
  if (problem.empty()) fmt::print("model        {}\n", (folder / "mean.safetensors").string());
  draw_models(config, folder, outcomes, model.layout());

  Json summary = summary_json(result, !stages.empty());
  if (!held.empty()) summary["held"] = held;
  if (faults) summary["faults"] = to_json(*faults);
  const std::filesystem::path file = folder / "summary.json";
  const bool is_written = replace_file(file, summary.dump(1) + '\n');
  if (!is_written) fmt::print(stderr, "{}: cannot be written\n", file.string());
  return is_written && problem.empty();
}

}  // namespace gv
