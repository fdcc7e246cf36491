// Writes facts as JSON lines, with limits on size and number.
#include "peer/host/event_log.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <variant>

#include "base/one_of.hpp"

namespace gv {
namespace {

constexpr std::size_t refusals_kept = 8;
constexpr int files_max = 4;
/// Largest numbers of lines per peer, event and minute: of refusals, and of the other facts that a
/// peer can cause as often as it likes.
constexpr int refusals_told = 10;
constexpr int others_told = 60;
constexpr Duration told_within = std::chrono::minutes(1);
constexpr Duration look_period = std::chrono::seconds(1);
constexpr ::mode_t private_mode = 0600;

/// Returns the log file of the given age; age 0 is the newest.
std::filesystem::path file_of_age(const std::filesystem::path& folder, int age) {
  return folder / ("events.jsonl" + (age == 0 ? "" : "." + std::to_string(age)));
}

double rounded_seconds(Time now) { return std::round(seconds(now.time_since_epoch()) * 1e6) / 1e6; }

/// Facts about a peer that are no refusals, and that this peer alone can cause without end.
using AtWill = std::variant<MemberSuspected, MemberRefuted, MemberLeft, MemberReturned, FetchAsked,
                            ModelServed, LaneOpened, LaneClosed, KeyUsedTwice, UnsoundMessage>;

/// Returns how many lines a minute facts of this kind get about one peer; nullopt means all.
std::optional<int> told_of(const Fact& fact, const FactText& text) {
  const bool is_refusal = text.peer && text.reason != Reason::none;
  if (is_refusal || std::holds_alternative<SelfRefuted>(fact)) return refusals_told;
  const bool is_at_will = std::visit([]<class F>(const F&) { return IsOneOf<F, AtWill>; }, fact);
  return is_at_will ? std::optional(others_told) : std::nullopt;
}

std::string to_line(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

std::vector<std::filesystem::path> event_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code ignored;
  for (int age = files_max - 1; age >= 0; --age) {
    const std::filesystem::path file = file_of_age(folder, age);
    if (std::filesystem::exists(file, ignored)) files.push_back(file);
  }
  return files;
}

EventLog::EventLog(Options options)
    : options_(std::move(options)), path_(file_of_age(options_.folder, 0)) {
  open();
  if (file_ < 0) {
    throw std::runtime_error(path_.string() + ": cannot be written: " + std::strerror(errno));
  }
}

EventLog::~EventLog() {
  end_minutes(now_, Duration::zero());
  if (file_ >= 0) ::close(file_);
}

void EventLog::open() {
  file_ = ::open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, private_mode);
  const ::off_t end = file_ < 0 ? 0 : ::lseek(file_, 0, SEEK_END);
  bytes_ = end > 0 ? static_cast<std::uint64_t>(end) : 0;
  // A full disk or a power cut may have left the last line of an earlier process incomplete.
  char last = '\n';
  is_torn_ = end > 0 && ::pread(file_, &last, 1, end - 1) == 1 && last != '\n';
}

/// Renames every log file to the next age. If renaming fails, the newest file keeps growing.
void EventLog::rotate() {
  std::error_code ignored;
  for (int age = files_max - 1; age > 0; --age) {
    std::filesystem::rename(file_of_age(options_.folder, age - 1),
                            file_of_age(options_.folder, age), ignored);
  }
  ::close(file_);
  open();
}

void EventLog::append(std::string line) {
  if (file_ < 0) open();  // No descriptor was free when the files were rotated.
  const std::size_t size = line.size() + (is_torn_ ? 1 : 0);
  if (bytes_ > 0 && bytes_ + size > options_.bytes_max / files_max) rotate();
  if (is_torn_) line.insert(line.begin(), '\n');
  const ::ssize_t written = ::write(file_, line.data(), line.size());
  if (written > 0) bytes_ += static_cast<std::uint64_t>(written);
  if (written == static_cast<::ssize_t>(line.size())) {
    is_torn_ = false;
    return;
  }
  is_torn_ = is_torn_ || written > 0;
  ++lost_;
  if (has_warned_ || !options_.warn) return;
  has_warned_ = true;
  const std::string why = written < 0 ? std::strerror(errno) : "no space is left";
  options_.warn(path_.string() + ": events cannot be written: " + why);
}

/// Returns true if the fact gets no line because too many similar facts were logged. The limit
/// applies only to facts of which other peers can cause any number.
bool EventLog::is_left_out(Time now, const Fact& fact, const FactText& text,
                           const std::string& name) {
  if (now - looked_at_ >= look_period) {
    looked_at_ = now;
    end_minutes(now, told_within);
  }
  const std::optional<int> most = told_of(fact, text);
  if (!most) return false;
  Budget& budget = budgets_.try_emplace({text.peer, std::string(text.info.name)}, Budget{now, name})
                       .first->second;
  if (++budget.lines <= *most) return false;
  ++budget.left_out;
  return true;
}

/// Ends the budgets that began at least `length` ago. For each one with omitted facts, writes a
/// line that counts them.
void EventLog::end_minutes(Time now, Duration length) {
  std::erase_if(budgets_, [&](const auto& entry) {
    const auto& [subject, budget] = entry;
    if (now - budget.since < length) return false;
    if (budget.left_out > 0) {
      nlohmann::ordered_json line{{"t", rounded_seconds(now)}, {"event", subject.second}};
      if (subject.first) {
        line["peer"] = to_string(*subject.first);
        line["name"] = budget.name;
      }
      line["left_out"] = budget.left_out;
      append(to_line(line));
    }
    return true;
  });
}

void EventLog::write(Time now, const Fact& fact) {
  const FactText text = describe(fact);
  now_ = now;
  counts_.add(fact);
  const double t = rounded_seconds(now);
  const std::string who = text.peer ? options_.name_of(*text.peer) : "";
  if (text.reason != Reason::none) {
    std::string why(to_string(text.reason));
    if (!text.detail.empty()) why += " (" + text.detail + ")";
    refusals_.push_back({t, std::string(text.info.name), who, std::move(why)});
    if (refusals_.size() > refusals_kept) refusals_.pop_front();
  }
  if (is_left_out(now, fact, text, who)) return;
  if (lost_ > 0) {
    const std::uint64_t lost = std::exchange(lost_, 0);
    append(to_line({{"t", t}, {"event", name_of(EventsLost{})}, {"lines", lost}}));
    if (lost_ > 0) lost_ = lost;
  }
  nlohmann::ordered_json line;
  line["t"] = t;
  line["event"] = text.info.name;
  if (text.peer) {
    line["peer"] = to_string(*text.peer);
    line["name"] = who;
  }
  if (text.reason != Reason::none) line["reason"] = to_string(text.reason);
  if (!text.detail.empty()) line["detail"] = text.detail;
  for (const auto& [name, value] : text.numbers) line[std::string(name)] = value;
  append(to_line(line));
}

}  // namespace gv
