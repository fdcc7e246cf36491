// One JSON line per fact in the run's folder, for people, scripts and tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/time.hpp"
#include "consensus/message/facts.hpp"
#include "peer/node/facts.hpp"

namespace gv {

/// Returns the existing files of a folder's event log, oldest first.
std::vector<std::filesystem::path> event_files(const std::filesystem::path& folder);

/// Appends to `events.jsonl`: {"t": seconds since the start, "event": the fact's name, "peer": id,
/// "name": the peer's name, "reason": ..., "detail": ..., and numbers}. Counts facts by name.
///
/// A full file becomes `events.jsonl.1`, the previous `.1` becomes `.2`, and so on; the oldest is
/// deleted. In each minute, at most ten refusals of one kind about one peer are written, and at
/// most ten corrections of others' statements about us. Of each other kind of fact that a peer can
/// cause at will, at most sixty about one peer are written. One line with "left_out" then counts
/// the omitted ones.
class EventLog {
 public:
  /// A refusal, kept for the command `status`.
  struct Refusal {
    double t = 0;
    std::string event;
    std::string peer;
    std::string why;
  };

  struct Options {
    std::filesystem::path folder;
    std::uint64_t bytes_max = std::uint64_t{256} << 20;  ///< Limit for all files together.
    std::function<std::string(PeerId)> name_of;    ///< Returns a peer's name for human readers.
    std::function<void(const std::string&)> warn;  ///< Called once when lines cannot be written.
  };

  /// Throws std::runtime_error if the file cannot be opened.
  explicit EventLog(Options options);
  ~EventLog();
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  /// Writes the fact to the file before it returns, so a killed process loses no logged fact.
  void write(Time now, const Fact& fact);

  const FactCounts& counts() const { return counts_; }
  const std::deque<Refusal>& last_refusals() const { return refusals_; }

 private:
  /// Counts the lines about one peer and one kind of fact in the current minute.
  struct Budget {
    Time since{};
    std::string name;  ///< The peer's name. Kept because `name_of` may be gone when the log ends.
    int lines = 0;
    std::uint64_t left_out = 0;
  };
  /// The peer, if there is one, and the name of the event.
  using Subject = std::pair<std::optional<PeerId>, std::string>;

  bool is_left_out(Time now, const Fact& fact, const FactText& text, const std::string& name);
  void end_minutes(Time now, Duration length);
  void append(std::string line);
  void rotate();
  void open();

  Options options_;
  std::filesystem::path path_;
  int file_ = -1;
  std::uint64_t bytes_ = 0;  ///< Size of the newest file.
  std::uint64_t lost_ = 0;   ///< Lines that could not be written and are not reported yet.
  bool is_torn_ = false;     ///< True if the file ends with part of a line.
  bool has_warned_ = false;
  std::map<Subject, Budget> budgets_;
  Time looked_at_{};  ///< When expired budgets were last looked for.
  Time now_{};        ///< Time of the newest fact.
  FactCounts counts_;
  std::deque<Refusal> refusals_;
};

}  // namespace gv
