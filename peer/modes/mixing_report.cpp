// Reports the neighbours, the rule and the counts of mode `mixing`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <utility>

#include "peer/modes/mixing.hpp"

namespace gv {

std::vector<PeerId> MixingMode::heard() const {
  std::vector<PeerId> peers;
  if (!plan_) return peers;
  for (const Share& share : plan_->turn(rank_, round_).in) peers.push_back(order_[share.from]);
  return peers;
}

std::vector<PeerId> MixingMode::out_neighbours() const {
  std::vector<PeerId> peers;
  if (!plan_) return peers;
  for (const std::size_t rank : plan_->turn(rank_, round_).out) peers.push_back(order_[rank]);
  return peers;
}

/// Returns human-readable lines: the neighbours and, after a switch, the current settings.
std::vector<std::string> MixingMode::details(const std::vector<std::string>& in,
                                             const std::vector<std::string>& out) const {
  const auto listed = [](const std::vector<std::string>& names) {
    return names.empty() ? std::string("no peer") : fmt::format("{}", fmt::join(names, " "));
  };
  const MixingCounts all = counts();
  std::vector<std::string> lines = {
      fmt::format("round {} of {} on {}, {} together: hears {}, is heard by {}; losses {}",
                  all.rounds, to_string(options_.rule.kind), to_string(options_.rule.topology.kind),
                  order_.size(), listed(in), listed(out), all.losses)};
  if (all.messages_dropped > 0) {
    lines.push_back(fmt::format("dropped {} messages that came faster than they could be mixed",
                                all.messages_dropped));
  }
  if (options_.revision.number == 0) return lines;
  std::string settings = options_.revision.settings;
  while (!settings.empty() && settings.back() == '\n') settings.pop_back();
  for (std::size_t at = 0; (at = settings.find('\n', at)) != std::string::npos;) {
    settings.replace(at, 1, ", ");
  }
  lines.push_back(fmt::format("switched since step {} to {}", ruled_since_, settings));
  return lines;
}

ModeReport MixingMode::report(const Membership& members) const {
  using enum ReportMetric::Kind;
  const MixingCounts all = counts();
  const std::vector<std::string> in = names_of(heard(), members);
  const std::vector<std::string> out = names_of(out_neighbours(), members);
  ReportSection section{
      .name = "mixing",
      .figures = {{"kind", std::string(to_string(options_.rule.kind))},
                  {"topology", std::string(to_string(options_.rule.topology.kind))},
                  {"settings_revision", options_.revision.number},
                  {"settings_since", ruled_since_},
                  {"settings", options_.revision.settings},
                  {"together", std::uint64_t{order_.size()}},
                  {"hears", in},
                  {"heard_by", out},
                  {"rounds", all.rounds},
                  {"generations", all.generations},
                  {"losses", all.losses},
                  {"states_sent", all.states_sent},
                  {"states_adopted", all.states_adopted},
                  {"messages_sent", all.messages_sent},
                  {"message_bytes", all.bytes_sent},
                  {"messages_refused", all.messages_refused},
                  {"messages_dropped", all.messages_dropped}}};
  generations_.add_to(section, members);
  ModeReport report{
      .sections = {std::move(section)},
      .metrics = {{"neighbours", gauge, "Peers that this one hears in the round under way.",
                   static_cast<double>(in.size())},
                  {"rounds_total", counter, "Rounds that this peer has mixed.",
                   static_cast<double>(all.rounds)},
                  {"round_messages_total", counter, "Messages made for neighbours.",
                   static_cast<double>(all.messages_sent)},
                  {"round_messages_refused_total", counter,
                   "Messages of neighbours that could not be read.",
                   static_cast<double>(all.messages_refused)},
                  {"round_messages_dropped_total", counter,
                   "Messages dropped because their peer was too far ahead.",
                   static_cast<double>(all.messages_dropped)},
                  {"models_fetched_total", counter, "Whole models downloaded.",
                   static_cast<double>(all.states_adopted)}},
      .columns = {{"together", std::to_string(order_.size())},
                  {"rounds", std::to_string(all.rounds)},
                  {"losses", std::to_string(all.losses)},
                  {"models sent", std::to_string(all.states_sent)}},
      .line = fmt::format("rounds {}  with {}  losses {}", all.rounds, order_.size(), all.losses),
      .details = details(in, out)};
  generations_.add_to(report.metrics);
  if (finale_.is_on()) finale_.work().add_to(members, report);
  return report;
}

}  // namespace gv
