// Reports as JSON, as a line and as Prometheus metrics.
#include "peer/host/report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "peer/host/replace_file.hpp"

namespace gv {

namespace {

std::string name_of(PeerId peer, const Membership& membership) {
  const Member* member = membership.find(peer);
  return member != nullptr ? member->name : to_string(peer);
}

void tell_pipeline(const PipelineMode& pipeline, const Membership& membership, Report& report) {
  report.mode = ModeKind::pipeline;
  report.pipeline = pipeline.counts();
  report.schedule = to_string(pipeline.options().kind);
  report.router = to_string(pipeline.options().router);
  report.own_stages.assign(pipeline.stages().begin(), pipeline.stages().end());
  report.stage_work = pipeline.options().stage_seconds;
  const std::size_t samples = pipeline.options().micro_batches * pipeline.options().micro_batch;
  report.samples = report.step * samples;
  // Samples of all peers a second; each peer reports its part, by the work of its stages.
  report.samples_per_second =
      pipeline.steps_per_second() * static_cast<double>(samples) * pipeline.work_done_here();
  for (const auto& carriers : pipeline.run().replicas()) {
    report.stages.emplace_back();
    for (const std::uint32_t rank : carriers) {
      report.stages.back().push_back(name_of(pipeline.run().order()[rank], membership));
    }
  }
}

void tell_rounds(const MixingMode& rounds, const Membership& membership, Report& report) {
  report.mode = ModeKind::mixing;
  report.mixing = rounds.counts();
  report.rule = rounds.options().rule;
  report.revision = rounds.options().revision;
  report.ruled_since = rounds.ruled_since();
  report.together = rounds.ranks().size();
  for (const PeerId peer : rounds.heard()) report.hears.push_back(name_of(peer, membership));
  for (const PeerId peer : rounds.out_neighbours())
    report.heard_by.push_back(name_of(peer, membership));
}

}  // namespace

std::string to_line(const Recovery& recovery, const Membership& membership) {
  std::string names;
  for (const PeerId peer : recovery.lost) {
    names += (names.empty() ? "" : ", ") + name_of(peer, membership);
  }
  return fmt::format("lost {}: {:.2f} s later operation {} is made by the other {}", names,
                     recovery.seconds, recovery.operation, recovery.peers);
}

Report make_report(const Node& node, const EventLog& log, std::size_t batch, Time now) {
  const Mode& mode = node.mode();
  const Membership& membership = node.membership();
  Report report;
  report.name = membership.self().name;
  report.id = to_string(membership.self().id);
  report.advertised = membership.self().address;
  report.pid = ::getpid();
  report.uptime_s = seconds(now.time_since_epoch());
  report.phase = to_string(mode.phase());
  report.step = mode.step();
  report.samples = mode.step() * batch;
  report.steps_per_second = mode.steps_per_second();
  report.samples_per_second = mode.steps_per_second() * static_cast<double>(batch);
  report.loss = mode.recent_loss();
  report.accuracy = mode.recent_accuracy();
  report.learning_rate = mode.learning_rate();
  report.saves = mode.saves();
  if (const GossipMode* gossip = node.gossip()) {
    const auto peers = static_cast<double>(membership.view().size());
    report.spread = gossip->last_distance() * std::sqrt((peers - 1) / (2 * peers));
    report.exchanges = gossip->exchange().counts();
    report.gossip = gossip->counts();
    report.population = gossip->population().is_on();
    report.trial = gossip->population().trial();
    report.copies = gossip->population().copies();
  }
  if (const AllReduceMode* allreduce = node.allreduce()) {
    report.mode = ModeKind::allreduce;
    report.allreduce = allreduce->counts();
    report.algorithm = to_string(allreduce->algorithm());
    if (const Generation* generation = allreduce->agreement().generation()) {
      for (const PeerId peer : generation->order) {
        report.ring_order.push_back(name_of(peer, membership));
      }
      if (generation->slowest.bytes_per_second > 0) {
        report.slowest_from = name_of(generation->slowest_from, membership);
        report.slowest_to = name_of(generation->slowest.to, membership);
        report.slowest_latency_s = static_cast<double>(generation->slowest.latency_s);
        report.slowest_bytes_per_second = static_cast<double>(generation->slowest.bytes_per_second);
      }
    }
  }
  if (const PipelineMode* pipeline = node.pipeline()) tell_pipeline(*pipeline, membership, report);
  if (const MixingMode* rounds = node.mixing()) tell_rounds(*rounds, membership, report);
  if (const GenerationMode* generations = node.generations()) {
    const Recovery& recovery = generations->last_recovery();
    if (!recovery.lost.empty()) {
      report.recovery = to_line(recovery, membership);
      report.resumed_at = recovery.operation;
    }
  }
  report.failures_seen = log.counts().of<MemberDead>();
  for (const Member& member : membership.members()) {
    report.members.emplace_back(member, member.id == membership.self().id);
  }
  report.refusals.assign(log.last_refusals().begin(), log.last_refusals().end());
  return report;
}

namespace {

/// Part of the worker's time in runs in which it had nothing to do.
double waiting_part(const Report& report) {
  const double all = report.pipeline.computing_s + report.pipeline.waiting_s;
  return all > 0 ? report.pipeline.waiting_s / all : 0;
}

nlohmann::ordered_json pipeline_json(const Report& report) {
  return {{"schedule", report.schedule},
          {"router", report.router},
          {"own_stages", report.own_stages},
          {"stages", report.stages},
          {"stage_work", report.stage_work},
          {"operations", report.pipeline.operations},
          {"generations", report.pipeline.generations},
          {"losses", report.pipeline.losses},
          {"rollbacks", report.pipeline.rollbacks},
          {"steps_lost", report.pipeline.steps_lost},
          {"states_sent", report.pipeline.states_sent},
          {"states_adopted", report.pipeline.states_adopted},
          {"passed_bytes", report.pipeline.passed_bytes},
          {"computing_s", report.pipeline.computing_s},
          {"waiting_s", report.pipeline.waiting_s},
          {"waiting_part", waiting_part(report)},
          {"saves", report.saves.written},
          {"save_failures", report.saves.failed},
          {"interruption", report.recovery},
          {"resumed_at", report.resumed_at}};
}

/// A peer's hyper-parameters and validation in a population; empty before the first validation.
nlohmann::ordered_json to_json(const std::optional<Trial>& trial) {
  if (!trial) return nlohmann::ordered_json::object();
  return {{"learning_rate", trial->learning_rate},
          {"momentum", trial->momentum},
          {"validation_loss", trial->validation_loss}};
}

nlohmann::ordered_json rounds_json(const Report& report) {
  return {{"kind", to_string(report.rule.kind)},
          {"topology", to_string(report.rule.topology.kind)},
          {"settings_revision", report.revision.number},
          {"settings_since", report.ruled_since},
          {"settings", report.revision.settings},
          {"together", report.together},
          {"hears", report.hears},
          {"heard_by", report.heard_by},
          {"rounds", report.mixing.rounds},
          {"generations", report.mixing.generations},
          {"losses", report.mixing.losses},
          {"states_sent", report.mixing.states_sent},
          {"states_adopted", report.mixing.states_adopted},
          {"messages_sent", report.mixing.messages_sent},
          {"message_bytes", report.mixing.bytes_sent},
          {"messages_superseded", report.messages_superseded},
          {"messages_refused", report.mixing.messages_refused},
          {"saves", report.saves.written},
          {"save_failures", report.saves.failed},
          {"interruption", report.recovery},
          {"resumed_at", report.resumed_at}};
}

/// The peer's exchanges with others, as part of a line.
std::string together(const Report& report) {
  switch (report.mode) {
    case ModeKind::allreduce:
      return fmt::format("in lockstep {}  losses {}", report.ring_order.size(),
                         report.allreduce.losses);
    case ModeKind::pipeline:
      return fmt::format("stages {}  waits {:.0f} %  losses {}", fmt::join(report.own_stages, ", "),
                         100 * waiting_part(report), report.pipeline.losses);
    case ModeKind::mixing:
      return fmt::format("rounds {}  with {}  losses {}", report.mixing.rounds, report.together,
                         report.mixing.losses);
    case ModeKind::gossip:
      break;
  }
  const std::string exchanges =
      fmt::format("exchanges {}  spread {:.3g}", report.exchanges.committed, report.spread);
  if (!report.trial) return exchanges;
  return exchanges + fmt::format("  rate {:.3g}  momentum {:.3g}  held-out loss {:.4f}  copies {}",
                                 report.trial->learning_rate, report.trial->momentum,
                                 report.trial->validation_loss, report.copies);
}

/// The part of a line about gossip.
void add_gossip(const Report& report, nlohmann::ordered_json& json) {
  json["spread"] = report.spread;
  json["exchanges"] = {
      {"initiated", report.exchanges.initiated}, {"committed", report.exchanges.committed},
      {"refused", report.exchanges.refused},     {"refusals", report.exchanges.refusals},
      {"aborted", report.exchanges.aborted},     {"undecided", report.exchanges.undecided}};
  json["gossip"] = {{"triggers", report.gossip.triggers},
                    {"idle_rounds", report.gossip.idle_rounds},
                    {"missed_rounds", report.gossip.missed_rounds},
                    {"forces_applied", report.gossip.forces_applied},
                    {"models_fetched", report.gossip.models_fetched},
                    {"saves", report.saves.written},
                    {"save_failures", report.saves.failed}};
  if (report.population) {
    json["population"] = to_json(report.trial);
    json["population"]["copies"] = report.copies;
  }
}

nlohmann::ordered_json lockstep_json(const Report& report) {
  nlohmann::ordered_json json = {{"algorithm", report.algorithm},
                                 {"order", report.ring_order},
                                 {"operations", report.allreduce.operations},
                                 {"generations", report.allreduce.generations},
                                 {"losses", report.allreduce.losses},
                                 {"states_sent", report.allreduce.states_sent},
                                 {"states_adopted", report.allreduce.states_adopted},
                                 {"reduced_bytes", report.allreduce.reduced_bytes},
                                 {"saves", report.saves.written},
                                 {"save_failures", report.saves.failed},
                                 {"interruption", report.recovery},
                                 {"resumed_at", report.resumed_at}};
  if (report.slowest_bytes_per_second > 0) {
    json["slowest_link"] = {{"from", report.slowest_from},
                            {"to", report.slowest_to},
                            {"latency_s", report.slowest_latency_s},
                            {"bytes_per_second", report.slowest_bytes_per_second}};
  }
  return json;
}

nlohmann::ordered_json members_json(const Report& report) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const auto& [member, is_self] : report.members) {
    json.push_back({{"name", member.name},
                    {"id", to_string(member.id)},
                    {"self", is_self},
                    {"state", to_string(member.state)},
                    {"incarnation", member.incarnation},
                    {"phase", to_string(member.progress.phase)},
                    {"step", member.progress.step},
                    {"steps_per_second", member.progress.steps_per_second},
                    {"address", member.address}});
    if (member.progress.trial) json.back()["trial"] = to_json(member.progress.trial);
  }
  return json;
}

/// The text of a metrics file, as Prometheus reads it.
struct Metrics {
  std::string text;

  void metric(std::string_view name, std::string_view type, std::string_view help, double value) {
    text += fmt::format("# HELP grapevine_{0} {1}\n# TYPE grapevine_{0} {2}\ngrapevine_{0} {3}\n",
                        name, help, type, value);
  }
  void count(std::string_view name, std::string_view help, std::uint64_t value) {
    metric(name, "counter", help, static_cast<double>(value));
  }
  void gauge(std::string_view name, std::string_view help, double value) {
    metric(name, "gauge", help, value);
  }

  void add_pipeline(const Report& report);
  void add_mixing(const Report& report);
  void add_allreduce(const Report& report);
  void add_gossip(const Report& report);
};

void Metrics::add_pipeline(const Report& report) {
  gauge("stages", "Stages of the model that this peer carries.",
        static_cast<double>(report.own_stages.size()));
  gauge("waiting_ratio", "Part of its time in runs in which it waited, 0 to 1.",
        waiting_part(report));
  count("operations_total", "Runs of the pipeline that this peer finished.",
        report.pipeline.operations);
  count("generations_total", "Agreements on who works together.", report.pipeline.generations);
  count("losses_total", "Times the others went on without somebody.", report.pipeline.losses);
  count("rollbacks_total", "Times all went back because a stage was lost.",
        report.pipeline.rollbacks);
  count("models_fetched_total", "States of stages downloaded.", report.pipeline.states_adopted);
}

void Metrics::add_mixing(const Report& report) {
  gauge("neighbours", "Peers that this one hears in the round under way.",
        static_cast<double>(report.hears.size()));
  count("rounds_total", "Rounds that this peer has mixed.", report.mixing.rounds);
  count("round_messages_total", "Messages made for neighbours.", report.mixing.messages_sent);
  count("round_messages_superseded_total",
        "Of those, not sent because a newer one was there before they left.",
        report.messages_superseded);
  count("round_messages_refused_total", "Messages of neighbours that could not be read.",
        report.mixing.messages_refused);
  count("generations_total", "Agreements on who works together.", report.mixing.generations);
  count("losses_total", "Times the others went on without somebody.", report.mixing.losses);
  count("models_fetched_total", "Whole models downloaded.", report.mixing.states_adopted);
}

void Metrics::add_allreduce(const Report& report) {
  gauge("lockstep_peers", "Peers in lockstep with this one, itself included.",
        static_cast<double>(report.ring_order.size()));
  count("operations_total", "Sums that this peer finished.", report.allreduce.operations);
  count("generations_total", "Agreements on who works together.", report.allreduce.generations);
  count("losses_total", "Times the others went on without somebody.", report.allreduce.losses);
  count("models_fetched_total", "Whole models downloaded.", report.allreduce.states_adopted);
}

void Metrics::add_gossip(const Report& report) {
  gauge("spread", "Estimated consensus distance.", report.spread);
  count("exchanges_committed_total", "Pair exchanges committed.", report.exchanges.committed);
  count("exchanges_refused_total", "Own offers refused.", report.exchanges.refused);
  count("exchanges_aborted_total", "Pair exchanges given up.", report.exchanges.aborted);
  count("exchanges_undecided_total", "Exchanges dropped without the commit word.",
        report.exchanges.undecided);
  count("models_fetched_total", "Whole models downloaded.", report.gossip.models_fetched);
  if (report.trial) {
    gauge("momentum", "Momentum of this member of a population.",
          static_cast<double>(report.trial->momentum));
    gauge("validation_loss", "Loss on what the peer holds out of its own data.",
          static_cast<double>(report.trial->validation_loss));
    count("copies_total", "Times this peer took over another's model.", report.copies);
  }
}

}  // namespace

std::string report_json(const Report& report) {
  nlohmann::ordered_json json;
  json["self"] = {{"name", report.name},
                  {"id", report.id},
                  {"pid", report.pid},
                  {"listening", report.listening},
                  {"advertised", report.advertised},
                  {"lanes", report.lanes}};
  json["uptime_s"] = report.uptime_s;
  json["phase"] = report.phase;
  json["step"] = report.step;
  json["steps"] = report.steps;
  json["samples"] = report.samples;
  json["steps_per_second"] = report.steps_per_second;
  json["samples_per_second"] = report.samples_per_second;
  json["loss"] = report.loss;
  json["accuracy"] = report.accuracy;
  json["learning_rate"] = report.learning_rate;
  if (report.mode == ModeKind::gossip) {
    add_gossip(report, json);
  } else if (report.mode == ModeKind::pipeline) {
    json["pipeline"] = pipeline_json(report);
  } else if (report.mode == ModeKind::mixing) {
    json["mixing"] = rounds_json(report);
  } else {
    json["allreduce"] = lockstep_json(report);
  }
  json["bytes"] = {{"lanes_sent", report.lane_bytes_sent},
                   {"lanes_received", report.lane_bytes_received},
                   {"control_sent", report.control_bytes_sent},
                   {"control_received", report.control_bytes_received}};
  json["messages"] = {{"sent", report.control_messages_sent},
                      {"received", report.control_messages_received}};
  json["refused_links"] = report.refused_links;
  json["failures_seen"] = report.failures_seen;
  json["members"] = members_json(report);
  json["refusals"] = nlohmann::ordered_json::array();
  for (const EventLog::Refusal& refusal : report.refusals) {
    json["refusals"].push_back(
        {{"t", refusal.t}, {"event", refusal.event}, {"peer", refusal.peer}, {"why", refusal.why}});
  }
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string report_line(const Report& report) {
  std::size_t alive = 0;
  for (const auto& [member, is_self] : report.members) {
    alive += is_self || member.state == MemberState::alive;
  }
  return fmt::format(
      "{:7.1f} s  {:<8} step {}/{}  {:.0f} samples/s  loss {:.4f}  accuracy {:.1f} %  peers {}  {}",
      report.uptime_s, report.phase, report.step, report.steps, report.samples_per_second,
      report.loss, 100 * report.accuracy, alive, together(report));
}

void write_metrics(const std::filesystem::path& file, const Report& report) {
  Metrics metrics;
  metrics.gauge("uptime_seconds", "Seconds since the peer started.", report.uptime_s);
  metrics.count("steps_total", "Local optimiser steps taken.", report.step);
  metrics.gauge("steps_per_second", "Recent local steps a second.", report.steps_per_second);
  metrics.gauge("training_loss", "Recent mean training loss.", report.loss);
  metrics.gauge("training_accuracy", "Recent training accuracy, 0 to 1.", report.accuracy);
  metrics.gauge("learning_rate", "Learning rate of the next step.", report.learning_rate);
  if (report.mode == ModeKind::pipeline) {
    metrics.add_pipeline(report);
  } else if (report.mode == ModeKind::mixing) {
    metrics.add_mixing(report);
  } else if (report.mode == ModeKind::allreduce) {
    metrics.add_allreduce(report);
  } else {
    metrics.add_gossip(report);
  }
  metrics.count("checkpoints_total", "Checkpoints written.", report.saves.written);
  metrics.count("checkpoint_failures_total", "Checkpoints that could not be written.",
                report.saves.failed);
  metrics.count("lane_bytes_sent_total", "Bytes sent on bulk lanes.", report.lane_bytes_sent);
  metrics.count("lane_bytes_received_total", "Bytes received on bulk lanes.",
                report.lane_bytes_received);
  metrics.count("control_bytes_sent_total", "Bytes sent on control links.",
                report.control_bytes_sent);
  metrics.count("control_bytes_received_total", "Bytes received on control links.",
                report.control_bytes_received);
  metrics.count("links_refused_total", "Strangers and disagreeing hellos refused.",
                report.refused_links);
  metrics.count("members_declared_dead_total", "Members declared dead.", report.failures_seen);
  double alive = 0;
  for (const auto& entry : report.members) alive += entry.first.state == MemberState::alive;
  metrics.gauge("members_alive", "Members thought alive, the peer itself included.", alive);

  replace_file(file, metrics.text);
}

}  // namespace gv
