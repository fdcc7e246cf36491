// Writes events as JSON lines.
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

void EventLog::write(Time now, const Event& event) {
  ++counts_[event.name];
  const double t = std::round(seconds(now.time_since_epoch()) * 1e6) / 1e6;
  nlohmann::ordered_json line;
  line["t"] = t;
  line["event"] = event.name;
  std::string who;
  if (event.peer) {
    who = name_of_(*event.peer);
    line["peer"] = to_string(*event.peer);
    line["name"] = who;
  }
  if (event.reason != Reason::none) line["reason"] = to_string(event.reason);
  if (!event.detail.empty()) line["detail"] = event.detail;
  for (const auto& [name, value] : event.numbers) line[name] = value;
  const std::string text =
      line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  std::fwrite(text.data(), 1, text.size(), file_);
  std::fflush(file_);
  if (event.reason != Reason::none) {
    std::string why(to_string(event.reason));
    if (!event.detail.empty()) why += " (" + event.detail + ")";
    refusals_.push_back({t, event.name, who, std::move(why)});
    if (refusals_.size() > refusals_kept) refusals_.pop_front();
  }
}

std::uint64_t EventLog::count(const std::string& name) const {
  const auto found = counts_.find(name);
  return found == counts_.end() ? 0 : found->second;
}

}  // namespace gv
