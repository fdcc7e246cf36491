// Sends signals to a peer, and slows it by stopping it for a part of each time slice.
#include "sim/local/launched_peer.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

namespace gv {
namespace {

/// Length of a time slice, and the shortest time for which the peer runs in a slice.
constexpr std::chrono::duration<double> slice_length{0.05};
constexpr std::chrono::duration<double> run_min{0.005};
/// The longest time for which a slowed peer stands still at once.
constexpr std::chrono::duration<double> rest_max{3600};

std::uint64_t told_bytes(const nlohmann::json& status) {
  return status.value("bytes", nlohmann::json::object()).value("lanes_sent", 0ULL);
}

}  // namespace

void LaunchedPeer::Stopwatch::set(bool on) {
  if (on == since.has_value()) return;
  if (on) {
    since = Clock::now();
  } else {
    total = until_now();
    since.reset();
  }
}

double LaunchedPeer::Stopwatch::until_now() const {
  return total + (since ? std::chrono::duration<double>(Clock::now() - *since).count() : 0);
}

LaunchedPeer::LaunchedPeer(asio::io_context& io, pid_t group, std::string name,
                           std::filesystem::path folder, double speed)
    : group_(group),
      name_(std::move(name)),
      folder_(std::move(folder)),
      speed_(speed),
      slice_(io) {}

void LaunchedPeer::start(const std::vector<std::string>& command) {
  process_.reset();
  untold_bytes_ += told_bytes(last);
  last = nlohmann::json::object();
  // Remove the result of an earlier incarnation.
  std::error_code ignored;
  std::filesystem::remove(folder_ / "result.json", ignored);
  process_.emplace(command, folder_ / "output.log", group_);
  ++incarnations_;
  state_ = State::running;
  taken_by_.reset();
  stops_.clear();
  stop_sent_ = false;
  down_.set(false);
  if (!slicing_) next_slice();
  send_stops();
}

LaunchedPeer::State LaunchedPeer::state() {
  if (state_ != State::running || !process_->ending()) return state_;
  state_ = taken_by_ ? State::taken : State::ended;
  down_.set(state_ == State::taken);
  stops_.clear();
  stopped_.set(false);
  return state_;
}

std::optional<Ending> LaunchedPeer::ending() {
  return process_ ? process_->ending() : std::nullopt;
}

std::uint64_t LaunchedPeer::untold_bytes() {
  const auto last_end = ending();
  return untold_bytes_ + (last_end && last_end->signal != 0 ? told_bytes(last) : 0);
}

bool LaunchedPeer::kill(std::size_t fault) {
  if (state() != State::running) return false;
  taken_by_ = fault;
  process_->signal(SIGKILL);
  state_ = State::taken;
  down_.set(true);
  stops_.clear();
  stopped_.set(false);
  return true;
}

bool LaunchedPeer::leave(std::size_t fault) {
  if (state() != State::running) return false;
  taken_by_ = fault;
  process_->signal(SIGTERM);
  return true;
}

bool LaunchedPeer::stop(std::size_t fault) {
  if (ending_ || state() != State::running) return false;
  stops_.insert(fault);
  send_stops();
  return true;
}

void LaunchedPeer::wake(std::size_t fault) {
  stops_.erase(fault);
  send_stops();
}

bool LaunchedPeer::wake() {
  const bool was_stopped = is_stopped();
  stops_.clear();
  send_stops();
  return was_stopped;
}

void LaunchedPeer::slow(std::size_t fault, double factor) {
  if (ending_) return;
  slowed_[fault] = factor;
  next_slice();
}

void LaunchedPeer::slow_no_more(std::size_t fault) {
  if (slowed_.erase(fault) > 0) next_slice();
}

void LaunchedPeer::end(int number) {
  ending_ = true;
  stops_.clear();
  slowed_.clear();
  resting_ = false;
  slicing_ = false;
  slice_.cancel();
  send_stops();
  if (state() == State::running) process_->signal(number);
}

double LaunchedPeer::pace() const {
  double pace = ending_ ? 1 : speed_;
  for (const auto& [fault, factor] : slowed_) pace *= factor;
  return pace;
}

/// Sends the process a SIGSTOP or SIGCONT if its state requires one.
void LaunchedPeer::send_stops() {
  stopped_.set(!stops_.empty());
  const bool should_stop = resting_ || !stops_.empty();
  if (state() != State::running || should_stop == stop_sent_) return;
  stop_sent_ = should_stop;
  process_->signal(should_stop ? SIGSTOP : SIGCONT);
}

/// Ends the current part of a time slice, also before its time if the pace has changed, and begins
/// the next part at the current pace. Ends the slicing if the peer is not slowed any more.
void LaunchedPeer::next_slice() {
  slicing_ = pace() < 1 && !ending_;
  resting_ = slicing_ && !resting_;
  send_stops();
  if (!slicing_) {
    slice_.cancel();
    return;
  }
  const double share = std::min(pace(), 1.0);
  const auto run = std::max(slice_length * share, run_min);
  const auto part = resting_ ? std::min(run * (1 / share - 1), rest_max) : run;
  slice_.expires_after(std::chrono::duration_cast<Clock::duration>(part));
  slice_.async_wait([this](asio::error_code error) {
    if (!error) next_slice();
  });
}

}  // namespace gv
