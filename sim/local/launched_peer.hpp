// One peer of a launched run in all its incarnations: started, stopped, slowed, killed, restarted.
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

/// Owns the peer's process. Faults are identified by number, so that the end of a fault undoes only
/// that fault.
class LaunchedPeer {
 public:
  enum class State {
    absent,   ///< Not started yet.
    running,  ///< Running, or stopped by a signal.
    taken,    ///< A fault killed the peer or made it leave. The peer may be started again.
    ended,    ///< Ended, but not by a fault; cleanly or not.
  };

  /// `speed` (at most 1) is the fraction of the time in which the peer may run. The peer's
  /// processes join `group`. The constructor starts no process.
  LaunchedPeer(asio::io_context& io, pid_t group, std::string name, std::filesystem::path folder,
               double speed);

  /// Starts the peer. Kills its earlier process first if that still exists.
  void start(const std::vector<std::string>& command);

  /// Lets fault `fault` end the peer by SIGKILL (kill) or SIGTERM (leave). Returns false if the
  /// peer is not running.
  bool kill(std::size_t fault);
  bool leave(std::size_t fault);
  /// Stops the peer by SIGSTOP until all faults that stopped it are over. Returns false if the peer
  /// is not running.
  bool stop(std::size_t fault);
  /// Ends this fault's stop. Sends SIGCONT unless another fault still stops the peer.
  void wake(std::size_t fault);
  /// Ends the stops of all faults. Returns false if the peer was not stopped.
  bool wake();
  /// Multiplies the peer's pace by `factor` until slow_no_more(), by stopping the peer for a part
  /// of every time slice. Both calls take effect at once.
  void slow(std::size_t fault, double factor);
  void slow_no_more(std::size_t fault);

  /// Wakes the peer for good and sends signal `number`. No fault stops or slows it afterwards.
  void end(int number);

  /// Returns the state, after reaping the process if it has ended.
  State state();
  bool is_stopped() const { return !stops_.empty(); }
  /// The fault that took the peer down; nullopt if the peer is not down because of a fault.
  std::optional<std::size_t> taken_by() const { return taken_by_; }
  /// How the last process ended. Nullopt while it runs, or if no process was started.
  std::optional<Ending> ending();
  std::size_t incarnations() const { return incarnations_; }

  const std::string& name() const { return name_; }
  const std::filesystem::path& folder() const { return folder_; }

  /// Seconds for which the peer has been down (or stopped) so far.
  double down_s() const { return down_.until_now(); }
  double stopped_s() const { return stopped_.until_now(); }
  /// Bytes that the peer reported as sent on lanes, over the incarnations that left no result.
  std::uint64_t untold_bytes();

  /// The newest status document of this incarnation.
  nlohmann::json last = nlohmann::json::object();

 private:
  using Clock = std::chrono::steady_clock;

  /// Measures the total time for which a condition has held.
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
  bool resting_ = false;  ///< True in the part of a slice in which the peer does not run.
  bool stop_sent_ = false;
  bool ending_ = false;  ///< True once end() was called.
  std::size_t incarnations_ = 0;
  Stopwatch down_;
  Stopwatch stopped_;
  std::uint64_t untold_bytes_ = 0;
};

}  // namespace gv
