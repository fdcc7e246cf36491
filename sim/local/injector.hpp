// Applies a scenario's faults to real processes and their links when they are due.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/problems.hpp"
#include "peer/config/config.hpp"
#include "sim/link_faults.hpp"
#include "sim/local/launched_peer.hpp"
#include "sim/scenario.hpp"

namespace gv {

/// Faults of real processes begin within this time from the start of the scenario.
inline constexpr Duration faults_end = std::chrono::hours(6);

/// Lists everything that prevents a scenario from running with `peers` real processes. `place` is
/// the scenario's file name, as problems show it.
Problems problems_on_processes(const Scenario& scenario, std::size_t peers, LaneKind lane,
                               const std::string& place);

/// True if the scenario has rules about links, so that peers must talk through a proxy.
bool has_bad_links(const Scenario& scenario);

/// A fault that had no effect.
struct SkippedFault {
  FaultKind kind = FaultKind::kill;
  double at_s = 0;
  std::string why;  ///< The reason, for people: for example "peer-5 had not joined yet".
};

/// For example "kill at 2 s (peer-5 had not joined yet)".
std::string to_string(const SkippedFault& skipped);

/// Injects the timeline's faults by the clock of the event loop. Skips a fault that finds no peer
/// to act on, and reports it.
class Injector {
 public:
  struct Calls {
    std::function<void(std::size_t peer, bool resume)> start;
    std::function<void(const FaultEvent&)> links;  ///< Applies a link fault.
    /// Asks the peer to switch the swarm to these settings.
    std::function<void(std::size_t peer, const std::string& settings)> switch_to;
    std::function<void(const std::string&)> tell;  ///< Prints a line for people.
  };

  Injector(asio::io_context& io, std::vector<FaultEvent> timeline, std::deque<LaunchedPeer>& peers,
           Calls calls);

  /// True if a fault makes the peer join later, so that it is absent at first.
  bool joins_late(std::size_t peer) const;

  /// Starts the scenario's clock.
  void begin();
  /// Cancels all future fault events. A rule counts as skipped if its first fault is cancelled.
  void cancel();
  bool is_over() const { return next_ == timeline_.size(); }

  /// True if a future event wakes or starts a peer that is not training now.
  bool will_revive() const;

  /// Number of injected faults so far, by kind.
  const std::map<std::string, std::size_t>& counts() const { return counts_; }

  /// The faults that have been skipped so far, in order of time.
  const std::vector<SkippedFault>& skipped() const { return skipped_; }

 private:
  void wait();
  void inject(const FaultEvent& fault_event);
  bool apply_to(const FaultEvent& fault_event, std::size_t number);
  bool revert(const FaultEvent& fault_event, std::size_t number);
  std::string why_not(FaultKind kind, std::size_t number);
  void skip(const FaultEvent& fault_event, std::string why);

  std::vector<FaultEvent> timeline_;
  std::deque<LaunchedPeer>& peers_;
  Calls calls_;
  asio::steady_timer timer_;
  std::chrono::steady_clock::time_point began_;
  std::size_t next_ = 0;
  std::map<std::string, std::size_t> counts_;
  std::vector<SkippedFault> skipped_;
};

}  // namespace gv
