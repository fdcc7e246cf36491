// Formats reports as JSON, as a line and as Prometheus metrics.
#include "peer/host/report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "peer/host/replace_file.hpp"

namespace gv {
namespace {

/// Returns text about which peers a finished peer still waits for, and how long. Empty if it waits
/// for none.
std::string lingers_for(const Node& node, Time now) {
  constexpr std::size_t names_max = 3;
  const Course& course = node.mode().course();
  const Time until = course.linger_deadline();
  std::vector<std::string> names;
  std::size_t more = 0;
  node.membership().for_each_other([&](const Member& member) {
    const bool may_come = is_live(member.state) ||
                          (course.options().waits_for_dead && member.state == MemberState::dead);
    if (!may_come || member.progress.phase == Phase::done) return;
    if (names.size() < names_max) {
      names.push_back(member.name);
    } else {
      ++more;
    }
  });
  if (until == never || names.empty()) return {};
  return fmt::format("waits for {}{}, at most {:.0f} s more", fmt::join(names, ", "),
                     more > 0 ? fmt::format(" and {} more", more) : "",
                     std::max(0.0, seconds(until - now)));
}

}  // namespace

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
  report.mode = mode.report(membership);
  if (const std::string waits = lingers_for(node, now); !waits.empty()) {
    report.mode.line += "  " + waits;
    report.mode.details.push_back(waits);
  }
  const double samples = report.mode.samples_per_step.value_or(static_cast<double>(batch));
  report.samples = static_cast<std::uint64_t>(static_cast<double>(mode.step()) * samples);
  report.steps_per_second = mode.steps_per_second();
  report.samples_per_second = mode.steps_per_second() * samples * report.mode.share_of_work;
  report.loss = mode.training().recent_loss();
  report.accuracy = mode.training().recent_accuracy();
  report.learning_rate = mode.training().learning_rate();
  report.saves = mode.training().saves();
  if (&mode.course() != &mode.training()) {
    report.saves.written += mode.course().saves().written;
    report.saves.failed += mode.course().saves().failed;
  }
  report.failures_seen = log.counts().of<MemberDead>();
  for (const Member& member : membership.members()) {
    report.members.emplace_back(member, member.id == membership.self().id);
  }
  report.refusals.assign(log.last_refusals().begin(), log.last_refusals().end());
  return report;
}

std::string step_of(std::uint64_t step, std::uint64_t steps, std::string_view separator) {
  if (steps == 0) return std::to_string(step);
  return fmt::format("{}{}{}", step, separator, steps);
}

namespace {

/// Returns the hyperparameters and the validation result of a peer in a population. Empty before
/// the first validation.
nlohmann::ordered_json to_json(const std::optional<Trial>& trial) {
  if (!trial) return nlohmann::ordered_json::object();
  return {{"learning_rate", trial->learning_rate},
          {"momentum", trial->momentum},
          {"validation_loss", trial->validation_loss}};
}

/// Adds a section of the mode's report. A section without a name is added to the document itself.
void add_section(const ReportSection& section, nlohmann::ordered_json& json) {
  nlohmann::ordered_json& part = section.name.empty() ? json : json[std::string(section.name)];
  if (!section.name.empty()) part = nlohmann::ordered_json::object();
  for (const auto& [name, figure] : section.figures) {
    nlohmann::ordered_json& named = part[std::string(name)];
    std::visit([&](const auto& value) { named = value; }, figure);
  }
}

void add_mode(const ModeReport& mode, nlohmann::ordered_json& json) {
  for (const ReportSection& section : mode.sections) add_section(section, json);
  json["columns"] = nlohmann::ordered_json::array();
  for (const ReportColumn& column : mode.columns) {
    json["columns"].push_back({{"head", column.head}, {"text", column.text}});
  }
  json["details"] = mode.details;
}

nlohmann::ordered_json members_json(const Report& report) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  std::multimap<PeerId, const ReportSection*> parts;
  for (const ReportMember& part : report.mode.members) parts.emplace(part.id, &part.section);
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
    const auto relay = report.relays.find(member.id);
    if (relay != report.relays.end()) json.back()["relay"] = relay->second;
    if (member.progress.trial) json.back()["trial"] = to_json(member.progress.trial);
    const auto [begin, end] = parts.equal_range(member.id);
    for (auto part = begin; part != end; ++part) add_section(*part->second, json.back());
  }
  return json;
}

/// The text of a metrics file in Prometheus' format.
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
};

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
  if (report.accuracy) json["accuracy"] = *report.accuracy;
  json["learning_rate"] = report.learning_rate;
  json["checkpoints"] = {{"written", report.saves.written}, {"failed", report.saves.failed}};
  add_mode(report.mode, json);
  json["bytes"] = {{"lanes_sent", report.lane_bytes_sent},
                   {"lanes_received", report.lane_bytes_received},
                   {"control_sent", report.control_bytes_sent},
                   {"control_received", report.control_bytes_received}};
  json["messages"] = {{"sent", report.control_messages_sent},
                      {"received", report.control_messages_received},
                      {"superseded", report.messages_superseded}};
  json["relayed"] = {{"streams", report.streams_relayed}, {"bytes", report.bytes_relayed}};
  json["refused_links"] = report.refused_links;
  json["failures_seen"] = report.failures_seen;
  json["members"] = members_json(report);
  json["refusals"] = nlohmann::ordered_json::array();
  for (const EventLog::Refusal& refusal : report.refusals) {
    json["refusals"].push_back(
        {{"t", refusal.t}, {"event", refusal.event}, {"peer", refusal.peer}, {"why", refusal.why}});
  }
  json["quarantined"] = nlohmann::ordered_json::array();
  for (const Report::Quarantined& one : report.quarantined) {
    json["quarantined"].push_back(
        {{"peer", one.peer},
         {"event", one.event},
         {"why", one.why},
         {"seconds", one.seconds ? nlohmann::json(*one.seconds) : nlohmann::json()}});
  }
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string report_line(const Report& report) {
  std::size_t alive = 0;
  for (const auto& [member, is_self] : report.members) {
    alive += is_self || member.state == MemberState::alive;
  }
  return fmt::format(
      "{:7.1f} s  {:<8} step {}  {:.0f} samples/s  loss {:.4f}{}  peers {}  {}", report.uptime_s,
      report.phase, step_of(report.step, report.steps), report.samples_per_second, report.loss,
      report.accuracy ? fmt::format("  accuracy {:.1f} %", 100 * *report.accuracy) : "", alive,
      report.mode.line);
}

void write_metrics(const std::filesystem::path& file, const Report& report) {
  Metrics metrics;
  metrics.gauge("uptime_seconds", "Seconds since the peer started.", report.uptime_s);
  metrics.count("steps_total", "Local optimiser steps taken.", report.step);
  metrics.gauge("steps_per_second", "Recent local steps a second.", report.steps_per_second);
  metrics.gauge("training_loss", "Recent mean training loss.", report.loss);
  if (report.accuracy) {
    metrics.gauge("training_accuracy", "Recent training accuracy, 0 to 1.", *report.accuracy);
  }
  metrics.gauge("learning_rate", "Learning rate of the next step.", report.learning_rate);
  for (const ReportMetric& metric : report.mode.metrics) {
    metrics.metric(metric.name, metric.kind == ReportMetric::Kind::counter ? "counter" : "gauge",
                   metric.help, metric.value);
  }
  metrics.count("checkpoints_total", "Checkpoints written.", report.saves.written);
  metrics.count("checkpoint_failures_total", "Checkpoints that could not be written.",
                report.saves.failed);
  metrics.count("lane_bytes_sent_total", "Bytes sent on bulk lanes.", report.lane_bytes_sent);
  metrics.count("lane_bytes_received_total", "Bytes received on bulk lanes.",
                report.lane_bytes_received);
  metrics.count("lane_messages_superseded_total",
                "Messages not sent on lanes because a newer one was there before they left.",
                report.messages_superseded);
  metrics.count("control_bytes_sent_total", "Bytes sent on control links.",
                report.control_bytes_sent);
  metrics.count("control_bytes_received_total", "Bytes received on control links.",
                report.control_bytes_received);
  metrics.count("relayed_bytes_total", "Bytes relayed for pairs of other peers.",
                report.bytes_relayed);
  metrics.count("links_refused_total", "Strangers and disagreeing hellos refused.",
                report.refused_links);
  metrics.count("members_declared_dead_total", "Members declared dead.", report.failures_seen);
  double alive = 0;
  for (const auto& entry : report.members) alive += entry.first.state == MemberState::alive;
  metrics.gauge("members_alive", "Members thought alive, the peer itself included.", alive);

  replace_file(file, metrics.text);
}

}  // namespace gv
