// Formats the status document from a peer's socket as a table.
#include "peer/host/status.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "peer/host/peer_json.hpp"
#include "peer/host/report.hpp"

namespace gv {
namespace {

/// The titles of the columns that a run with a population adds to the table.
constexpr const char* trial_head = "      rate momentum held-out";

std::string trial_of(const nlohmann::json& member) {
  const auto trial = member.find("trial");
  if (trial == member.end()) return fmt::format("{:>10} {:>8} {:>8}", "-", "-", "-");
  return fmt::format("{:>10.3g} {:>8.3g} {:>8.4f}", trial->value("learning_rate", 0.0),
                     trial->value("momentum", 0.0), trial->value("validation_loss", 0.0));
}

/// Returns the address at which we dial a member, or the name of the peer that relays our messages
/// to it.
std::string way_to(const nlohmann::json& member) {
  const std::string relay = member.value("relay", "");
  return relay.empty() ? member.value("address", "") : "relayed by " + relay;
}

/// Returns a text of the document, or `otherwise` if it is missing or empty.
std::string text_of(const nlohmann::json& json, const char* key, const char* otherwise) {
  const std::string text = json.value(key, "");
  return text.empty() ? otherwise : text;
}

/// A line about the traffic that this peer relays for others; empty if it relays none.
std::string relayed_line(const nlohmann::json& json) {
  const auto relayed = json.value("relayed", nlohmann::json::object());
  const auto bytes = relayed.value("bytes", std::uint64_t{0});
  if (bytes == 0) return {};
  return fmt::format("  relays for {} pairs of other peers, {:.1f} MiB so far\n",
                     relayed.value("streams", std::uint64_t{0}),
                     static_cast<double>(bytes) / (1 << 20));
}

}  // namespace

std::string status_table(const std::string& document) {
  auto json = parse_peer_json<nlohmann::json>(document);
  if (json.is_discarded()) return "the peer's answer is not valid JSON\n";
  make_printable(json);
  std::string out = peer_line(json) + '\n';
  const auto self = json.value("self", nlohmann::json::object());
  out += fmt::format("  listening on {}  advertised as {}  lanes on {}\n",
                     text_of(self, "listening", "nothing (dials out only)"),
                     text_of(self, "advertised", "nothing"), text_of(self, "lanes", "nothing"));
  out += fmt::format(
      "  step {}  {:.1f} steps/s  {:.0f} samples/s  loss {:.4f}{}  learning rate {:.2g}\n",
      step_of(json.value("step", 0ULL), json.value("steps", 0ULL), " of "),
      json.value("steps_per_second", 0.0), json.value("samples_per_second", 0.0),
      json.value("loss", 0.0),
      json.contains("accuracy")
          ? fmt::format("  accuracy {:.2f} %", 100 * json.value("accuracy", 0.0))
          : "",
      json.value("learning_rate", 0.0));
  for (const auto& line : json.value("details", std::vector<std::string>())) {
    out += fmt::format("  {}\n", line);
  }
  out += relayed_line(json);
  const auto population = json.find("population");
  out += '\n';
  out += fmt::format("{:<16} {:<10} {:<10} {:>10} {:>9}{}  {}\n", "member", "state", "phase",
                     "step", "steps/s", population == json.end() ? "" : trial_head, "address");
  for (const auto& member : json.value("members", nlohmann::json::array())) {
    out += fmt::format("{:<16} {:<10} {:<10} {:>10} {:>9.1f}{}  {}\n", member.value("name", ""),
                       member.value("state", ""), member.value("phase", ""),
                       member.value("step", 0ULL), member.value("steps_per_second", 0.0),
                       population == json.end() ? "" : trial_of(member), way_to(member));
  }
  const auto refusals = json.value("refusals", nlohmann::json::array());
  if (!refusals.empty()) out += "\nlast refusals\n";
  for (const auto& refusal : refusals) {
    out += fmt::format("  {:>9.2f} s  {:<20} {:<16} {}\n", refusal.value("t", 0.0),
                       refusal.value("event", ""), refusal.value("peer", ""),
                       refusal.value("why", ""));
  }
  const auto quarantined = json.value("quarantined", nlohmann::json::array());
  if (!quarantined.empty()) out += "\nquarantined\n";
  for (const auto& one : quarantined) {
    const nlohmann::json left = one.value("seconds", nlohmann::json());
    const std::string lasts =
        left.is_number() ? fmt::format("{:.0f} s more", left.get<double>()) : "for good";
    out += fmt::format("  {:<16} {:>11}  {:<20} {}\n", one.value("peer", ""), lasts,
                       one.value("event", ""), one.value("why", ""));
  }
  return out;
}

}  // namespace gv
