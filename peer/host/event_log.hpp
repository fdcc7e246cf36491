// One JSON line per event in the run's folder, for people, scripts and tests.
#pragma once

#include <cstdint>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "base/time.hpp"
#include "consensus/message/effects.hpp"

namespace gv {

/// Appends to `events.jsonl`: {"t": seconds since the start, "event": name, "peer": id,
/// "name": its name, "reason": ..., "detail": ..., and the event's numbers}. Counts events by name.
class EventLog {
 public:
  /// A refusal, kept for `status`.
  struct Refusal {
    double t = 0;
    std::string event;
    std::string peer;
    std::string why;
  };

  /// `name_of` turns an id into a name people know. Throws std::runtime_error when the file cannot
  /// be opened.
  EventLog(const std::filesystem::path& folder, std::function<std::string(PeerId)> name_of);
  ~EventLog();
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  /// Writes the event to the file before it returns, so a killed process loses none.
  void write(Time now, const Event& event);

  const std::map<std::string, std::uint64_t>& counts() const { return counts_; }
  std::uint64_t count(const std::string& name) const;
  const std::deque<Refusal>& last_refusals() const { return refusals_; }

 private:
  std::function<std::string(PeerId)> name_of_;
  std::FILE* file_;
  std::map<std::string, std::uint64_t> counts_;
  std::deque<Refusal> refusals_;
};

}  // namespace gv
