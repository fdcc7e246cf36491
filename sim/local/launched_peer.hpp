// One peer of a launched run through all its incarnations: started, stopped, slowed, killed,
// restarted.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/local/process.hpp"

namespace gv {

/// Owns the peer's process. Faults are identified by number, so that each ends only what it began.
class LaunchedPeer {
 public:
  enum class State {
    absent,   ///< Not started yet.
    running,  ///< Running, or stopped by a signal.
    taken,    ///< A fault killed it or made it leave; it may be started again.
    ended,    ///< Ended by itself, cleanly or not.
  };

  /// `speed` (at most 1) is the fraction of time that the peer may run. Its processes join `group`.
  /// Does not start anything yet.
  LaunchedPeer(asio::io_context& io, pid_t group, std::string name, std::filesystem::path folder,
               double speed);

  /// Starts the peer. Kills an earlier process of it that is still there.
  void start(const std::vector<std::string>& command);

  /// Fault `fault` sends SIGKILL (or SIGTERM). Returns false if the peer does not run.
  bool kill(std::size_t fault);
  bool leave(std::size_t fault);
  /// Stops it by SIGSTOP until every fault that stopped it is over. Returns false if it does not
  /// run.
  bool stop(std::size_t fault);
  /// Ends this fault's stop. Sends SIGCONT unless another fault still stops the peer.
  void wake(std::size_t fault);
  /// Ends the stops of all faults. Returns false if it was not stopped.
  bool wake();
  /// Multiplies its pace by `factor` from now on, by stopping it for a part of every time slice.
  void slow(std::size_t fault, double factor);
  void slow_no_more(std::size_t fault);

  /// Wakes it for good and sends signal `number`. Nothing stops or slows it afterwards.
  void end(int number);

  /// Returns the state, after reaping the process if it has ended.
  State state();
  bool is_stopped() const { return !stops_.empty(); }
  /// The fault that took the peer down, while it is down.
  std::optional<std::size_t> taken_by() const { return taken_by_; }
  /// How its last process ended; nullopt while it runs or if there was none.
  std::optional<Ending> ending();
  std::size_t incarnations() const { return incarnations_; }

  const std::string& name() const { return name_; }
  const std::filesystem::path& folder() const { return folder_; }

  /// Seconds so far for which it was down (or stopped).
  double down_s() const { return down_.until_now(); }
  double stopped_s() const { return stopped_.until_now(); }
  /// Bytes it sent on lanes in incarnations that left no result, as far as it reported them.
  std::uint64_t untold_bytes();

  /// The newest status document of this incarnation.
  nlohmann::json last = nlohmann::json::object();

 private:
  using Clock = std::chrono::steady_clock;

  /// Adds up the time for which a condition holds.
  struct Stopwatch {
    double total = 0;
    std::optional<Clock::time_point> since;
    void set(bool on);
    double until_now() const;
  };

  double pace() const;
  void send_stops();
  void next_slice();

  pid_t group_;
  std::string name_;
  std::filesystem::path folder_;
  double speed_;
  std::optional<ChildProcess> process_;
  State state_ = State::absent;
  std::optional<std::size_t> taken_by_;
  std::set<std::size_t> stops_;
  std::map<std::size_t, double> slowed_;
  asio::steady_timer slice_;
  bool slicing_ = false;  ///< True while the timer is armed.
  bool resting_ = false;  ///< True in the part of a slice in which it does not run.
  bool stop_sent_ = false;
  bool ending_ = false;  ///< True once end() was called.
  std::size_t incarnations_ = 0;
  Stopwatch down_;
  Stopwatch stopped_;
  std::uint64_t untold_bytes_ = 0;
};

}  // namespace gv
