// The table made of the document of a peer's socket.
#include "peer/host/status.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "peer/host/peer_json.hpp"

namespace gv {
namespace {

/// How the peer sums, for people; empty in another mode.
std::string ring_lines(const nlohmann::json& allreduce) {
  std::string order;
  for (const auto& name : allreduce.value("order", nlohmann::json::array())) {
    order += (order.empty() ? "" : " ") + name.get<std::string>();
  }
  std::string out = fmt::format("  sums by {}, in the order {}\n", allreduce.value("algorithm", ""),
                                order.empty() ? "that is being agreed on" : order);
  if (const auto link = allreduce.find("slowest_link"); link != allreduce.end()) {
    out += fmt::format("  slowest link {} to {}: {:.4g} MB/s, {:.3g} ms\n", link->value("from", ""),
                       link->value("to", ""), 1e-6 * link->value("bytes_per_second", 0.0),
                       1e3 * link->value("latency_s", 0.0));
  }
  return out;
}

/// The carriers of each stage and the use of time, for people.
std::string pipeline_lines(const nlohmann::json& pipeline) {
  std::string out = fmt::format("  schedule {}, router {}; waits {:.0f} % of its time in runs\n",
                                pipeline.value("schedule", ""), pipeline.value("router", ""),
                                100 * pipeline.value("waiting_part", 0.0));
  const auto work = pipeline.value("stage_work", std::vector<double>());
  std::size_t stage = 0;
  for (const auto& carriers : pipeline.value("stages", nlohmann::json::array())) {
    std::string names;
    for (const auto& name : carriers) names += " " + name.get<std::string>();
    out += fmt::format("  stage {} ({:.0f} % of the work):{}\n", stage,
                       stage < work.size() ? 100 * work[stage] : 0.0, names);
    ++stage;
  }
  return out;
}

/// The peer's neighbours in mixing, for people.
std::string rounds_lines(const nlohmann::json& rounds) {
  const auto names = [&](const char* key) {
    std::string text;
    for (const auto& name : rounds.value(key, nlohmann::json::array())) {
      text += (text.empty() ? "" : " ") + name.get<std::string>();
    }
    return text.empty() ? std::string("nobody") : text;
  };
  std::string out =
      fmt::format("  round {} of {} on {}, {} together: hears {}, is heard by {}; losses {}\n",
                  rounds.value("rounds", 0ULL), rounds.value("kind", ""),
                  rounds.value("topology", ""), rounds.value("together", 0ULL), names("hears"),
                  names("heard_by"), rounds.value("losses", 0ULL));
  if (rounds.value("settings_revision", 0ULL) > 0) {
    std::string settings = rounds.value("settings", "");
    while (!settings.empty() && settings.back() == '\n') settings.pop_back();
    for (std::size_t at = 0; (at = settings.find('\n', at)) != std::string::npos;) {
      settings.replace(at, 1, ", ");
    }
    out += fmt::format("  switched since step {} to {}\n", rounds.value("settings_since", 0ULL),
                       settings);
  }
  return out;
}

/// The columns of a population's members.
constexpr const char* trial_head = "      rate momentum held-out";

std::string trial_of(const nlohmann::json& member) {
  const auto trial = member.find("trial");
  if (trial == member.end()) return fmt::format("{:>10} {:>8} {:>8}", "-", "-", "-");
  return fmt::format("{:>10.3g} {:>8.3g} {:>8.4f}", trial->value("learning_rate", 0.0),
                     trial->value("momentum", 0.0), trial->value("validation_loss", 0.0));
}

}  // namespace

std::string status_table(const std::string& document) {
  const auto json = parse_peer_json<nlohmann::json>(document);
  if (json.is_discarded()) return "the peer's answer is not valid JSON\n";
  std::string out;
  const auto self = json.value("self", nlohmann::json::object());
  out += fmt::format("peer {}  {}  {}\n", self.value("name", ""), self.value("id", ""),
                     json.value("phase", ""));
  out += fmt::format("  listening on {}  advertised as {}  lanes on {}\n",
                     self.value("listening", "nothing (dials out only)"),
                     self.value("advertised", "nothing"), self.value("lanes", "nothing"));
  out += fmt::format(
      "  step {} of {}  {:.1f} steps/s  {:.0f} samples/s  loss {:.4f}  accuracy {:.2f} %"
      "  learning rate {:.2g}\n",
      json.value("step", 0ULL), json.value("steps", 0ULL), json.value("steps_per_second", 0.0),
      json.value("samples_per_second", 0.0), json.value("loss", 0.0),
      100 * json.value("accuracy", 0.0), json.value("learning_rate", 0.0));
  if (const auto allreduce = json.find("allreduce"); allreduce != json.end()) {
    out += ring_lines(*allreduce);
  } else if (const auto pipeline = json.find("pipeline"); pipeline != json.end()) {
    out += pipeline_lines(*pipeline);
  } else if (const auto rounds = json.find("mixing"); rounds != json.end()) {
    out += rounds_lines(*rounds);
  } else {
    const auto exchanges = json.value("exchanges", nlohmann::json::object());
    out += fmt::format(
        "  spread {:.3g}  exchanges {} committed  {} refused  {} aborted  {} undecided\n",
        json.value("spread", 0.0), exchanges.value("committed", 0ULL),
        exchanges.value("refused", 0ULL), exchanges.value("aborted", 0ULL),
        exchanges.value("undecided", 0ULL));
  }
  const auto population = json.find("population");
  if (population != json.end()) {
    out += fmt::format("  in a population: copied others {} times\n",
                       population->value("copies", 0ULL));
  }
  out += '\n';
  out += fmt::format("{:<16} {:<10} {:<10} {:>10} {:>9}{}  {}\n", "member", "state", "phase",
                     "step", "steps/s", population == json.end() ? "" : trial_head, "address");
  for (const auto& member : json.value("members", nlohmann::json::array())) {
    out +=
        fmt::format("{:<16} {:<10} {:<10} {:>10} {:>9.1f}{}  {}\n", member.value("name", ""),
                    member.value("state", ""), member.value("phase", ""),
                    member.value("step", 0ULL), member.value("steps_per_second", 0.0),
                    population == json.end() ? "" : trial_of(member), member.value("address", ""));
  }
  const auto refusals = json.value("refusals", nlohmann::json::array());
  if (!refusals.empty()) out += "\nlast refusals\n";
  for (const auto& refusal : refusals) {
    out += fmt::format("  {:>9.2f} s  {:<20} {:<16} {}\n", refusal.value("t", 0.0),
                       refusal.value("event", ""), refusal.value("peer", ""),
                       refusal.value("why", ""));
  }
  return out;
}

}  // namespace gv
