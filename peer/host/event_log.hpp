// One JSON line per fact in the run's folder, for people, scripts and tests.
#pragma once

#include <cstdint>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <functional>
#include <string>

#include "base/time.hpp"
#include "consensus/message/facts.hpp"
#include "peer/node/facts.hpp"

namespace gv {

/// Appends to `events.jsonl`: {"t": seconds since the start, "event": the fact's name,
/// "peer": id, "name": its name, "reason": ..., "detail": ..., and numbers}. Counts facts by name.
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

  /// Writes the fact to the file before it returns, so a killed process loses none.
  void write(Time now, const Fact& fact);

  const FactCounts& counts() const { return counts_; }
  const std::deque<Refusal>& last_refusals() const { return refusals_; }

 private:
  std::function<std::string(PeerId)> name_of_;
  std::FILE* file_;
  FactCounts counts_;
  std::deque<Refusal> refusals_;
};

}  // namespace gv
