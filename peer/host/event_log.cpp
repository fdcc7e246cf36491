// Writes facts as JSON lines.
#include "peer/host/event_log.hpp"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace gv {
namespace {

constexpr std::size_t refusals_kept = 8;

}  // namespace

EventLog::EventLog(const std::filesystem::path& folder, std::function<std::string(PeerId)> name_of)
    : name_of_(std::move(name_of)) {
  const auto path = folder / "events.jsonl";
  file_ = std::fopen(path.c_str(), "ae");
  if (file_ == nullptr) {
    throw std::runtime_error(path.string() + ": cannot be written: " + std::strerror(errno));
  }
}

EventLog::~EventLog() { std::fclose(file_); }

void EventLog::write(Time now, const Fact& fact) {
  const FactText text = describe(fact);
  counts_.add(fact);
  const double t = std::round(seconds(now.time_since_epoch()) * 1e6) / 1e6;
  nlohmann::ordered_json line;
  line["t"] = t;
  line["event"] = text.info.name;
  std::string who;
  if (text.peer) {
    who = name_of_(*text.peer);
    line["peer"] = to_string(*text.peer);
    line["name"] = who;
  }
  if (text.reason != Reason::none) line["reason"] = to_string(text.reason);
  if (!text.detail.empty()) line["detail"] = text.detail;
  for (const auto& [name, value] : text.numbers) line[std::string(name)] = value;
  const std::string json =
      line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  std::fwrite(json.data(), 1, json.size(), file_);
  std::fflush(file_);
  if (text.reason != Reason::none) {
    std::string why(to_string(text.reason));
    if (!text.detail.empty()) why += " (" + text.detail + ")";
    refusals_.push_back({t, std::string(text.info.name), who, std::move(why)});
    if (refusals_.size() > refusals_kept) refusals_.pop_front();
  }
}

}  // namespace gv
