// Counts the effects of faults, and reports them as sentences and as JSON.
#include "sim/local/fault_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "peer/host/event_log.hpp"
#include "peer/node/facts.hpp"

namespace gv {
namespace {

using Json = nlohmann::ordered_json;

std::uint64_t bytes_of(const std::filesystem::path& file) {
  std::error_code missing;
  const auto size = std::filesystem::file_size(file, missing);
  return missing ? 0 : size;
}

/// Largest number of skipped faults to list on the screen. Further ones are only counted.
constexpr std::size_t skipped_shown_max = 5;

/// For example "; skipped 1: kill at 2 s (peer-5 had not joined yet)". Empty if none was skipped.
std::string skipped_text(const std::vector<SkippedFault>& skipped) {
  std::string text;
  for (std::size_t i = 0; i < std::min(skipped.size(), skipped_shown_max); ++i) {
    text += (i == 0 ? "" : ", ") + to_string(skipped[i]);
  }
  if (skipped.size() > skipped_shown_max) {
    text += fmt::format(" and {} more", skipped.size() - skipped_shown_max);
  }
  return text.empty() ? text : fmt::format("; skipped {}: {}", skipped.size(), text);
}

}  // namespace

std::uint64_t count(const FaultReport& report, const std::string& event) {
  std::uint64_t sum = 0;
  for (const EventCounts& peer : report.events) {
    const auto found = peer.find(event);
    if (found != peer.end()) sum += found->second;
  }
  return sum;
}

EventCounts count_events(const std::filesystem::path& folder, std::uint64_t offset) {
  EventCounts counts;
  for (const std::filesystem::path& file : event_files(folder)) {
    const std::uint64_t before = std::min<std::uint64_t>(offset, bytes_of(file));
    offset -= before;
    std::ifstream in(file);
    in.seekg(static_cast<std::streamoff>(before));
    for (std::string line; std::getline(in, line);) {
      // Skip invalid lines. A process that was killed while writing leaves half a line, and a
      // person may edit the file.
      const Json event = Json::parse(line, nullptr, false);
      const auto name = event.find("event");
      if (name == event.end() || !name->is_string()) continue;
      const auto left_out = event.find("left_out");
      const bool stands_for_many = left_out != event.end() && left_out->is_number_unsigned();
      counts[name->get<std::string>()] += stands_for_many ? left_out->get<std::uint64_t>() : 1;
    }
  }
  return counts;
}

std::uint64_t event_bytes(const std::filesystem::path& folder) {
  std::uint64_t sum = 0;
  for (const std::filesystem::path& file : event_files(folder)) sum += bytes_of(file);
  return sum;
}

void print(const FaultReport& report, bool lockstep) {
  std::string injected;
  for (const auto& [kind, times] : report.injected) {
    injected += fmt::format("{}{} {}", injected.empty() ? "" : ", ", times, kind);
  }
  fmt::print("injected     {}{}\n", injected.empty() ? "nothing" : injected,
             skipped_text(report.skipped));
  fmt::print("cost         {:.1f} s of peers down, {:.1f} s stopped\n", report.down_s,
             report.stopped_s);
  if (lockstep) {
    fmt::print("             generations: {} ended early, by the first peer to notice, {} begun\n",
               count(report, fact_name<GenerationEnded>()),
               count(report, fact_name<GenerationBegan>()));
  } else {
    fmt::print("             exchanges: {} aborted, {} undecided, {} refused\n",
               count(report, fact_name<ExchangeAborted>()),
               count(report, fact_name<ExchangeUndecided>()),
               count(report, fact_name<ExchangeRefused>()));
  }
  fmt::print("             members: {} declared dead, {} came back, {} suspicions refuted\n",
             count(report, fact_name<MemberDead>()), count(report, fact_name<MemberReturned>()),
             count(report, fact_name<MemberRefuted>()));
  fmt::print("             models: {} fetched\n",
             count(report, lockstep ? fact_name<StateAdopted>() : fact_name<ModelFetched>()));
  if (!report.proxy) return;
  const FaultProxy::Counters& proxy = *report.proxy;
  fmt::print("links        {} connections, {} broken; {:.1f} MB passed, {:.3f} MB were held up\n",
             proxy.connections, proxy.broken, static_cast<double>(proxy.bytes) / 1e6,
             static_cast<double>(proxy.bytes_held) / 1e6);
  fmt::print("             segments: {} lost, {} duplicated, {} reordered, {} corrupted\n",
             proxy.lost, proxy.duplicated, proxy.reordered, proxy.corrupted);
}

Json to_json(const FaultReport& report) {
  Json json{{"injected", report.injected},
            {"down_s", report.down_s},
            {"stopped_s", report.stopped_s},
            {"committed_ends", count(report, fact_name<ExchangeCommitted>())},
            {"aborted", count(report, fact_name<ExchangeAborted>())},
            {"undecided", count(report, fact_name<ExchangeUndecided>())},
            {"refused", count(report, fact_name<ExchangeRefused>())},
            {"declared_dead", count(report, fact_name<MemberDead>())},
            {"returned", count(report, fact_name<MemberReturned>())},
            {"refuted", count(report, fact_name<MemberRefuted>())},
            {"models_fetched", count(report, fact_name<ModelFetched>())},
            {"models_refused", count(report, fact_name<ModelRefused>())}};
  json["skipped"] = Json::array();
  for (const SkippedFault& skipped : report.skipped) {
    json["skipped"].push_back(
        {{"fault", to_string(skipped.kind)}, {"at_s", skipped.at_s}, {"why", skipped.why}});
  }
  if (report.proxy) {
    const FaultProxy::Counters& proxy = *report.proxy;
    json["links"] = {{"connections", proxy.connections}, {"refused", proxy.refused},
                     {"broken", proxy.broken},           {"bytes", proxy.bytes},
                     {"bytes_held", proxy.bytes_held},   {"lost", proxy.lost},
                     {"duplicated", proxy.duplicated},   {"reordered", proxy.reordered},
                     {"corrupted", proxy.corrupted}};
  }
  return json;
}

}  // namespace gv
