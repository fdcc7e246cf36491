// A scenario on real processes: their addresses, the links between them, and their faults.
#pragma once

#include <asio/io_context.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/link_faults.hpp"
#include "sim/local/addresses.hpp"
#include "sim/local/fault_proxy.hpp"
#include "sim/local/fault_report.hpp"
#include "sim/local/injector.hpp"
#include "sim/local/launched_peer.hpp"
#include "sim/scenario.hpp"

namespace gv {

/// Draws all random values from `seed`. If the scenario has rules about links, a proxy listens from
/// the start; otherwise there is none.
class RealScenario {
 public:
  struct Calls {
    std::function<void(std::size_t peer, bool resume)> start;
    std::function<void(const std::string&)> tell;  ///< Prints a line for people.
  };

  /// The peers' folders must exist, and `peers` must outlive this object. Throws std::system_error
  /// if ports or addresses are not available.
  RealScenario(asio::io_context& io, const Scenario& scenario, std::uint64_t seed,
               std::deque<LaunchedPeer>& peers, Calls calls);
  RealScenario(const RealScenario&) = delete;

  /// Sets the peer's arguments for addresses and lanes. They are the same in every incarnation.
  void set_addresses(std::size_t peer, PeerArguments& arguments) const;

  /// Addresses of running peers, enough for a newcomer to find one that it can reach.
  std::vector<std::string> joins_for(std::size_t peer) const;

  /// Number of peers that exist from the start.
  std::size_t starters() const;

  /// Starts the scenario's clock. May be called only once; see has_begun().
  void begin();
  bool has_begun() const { return begun_; }

  Injector& injector() { return *injector_; }
  FaultReport report() const;

 private:
  std::deque<LaunchedPeer>& peers_;
  std::deque<PeerAddresses> addresses_;
  std::vector<std::uint64_t> log_offsets_;  ///< Size of each peer's event log when this run began.
  LinkFaults links_;
  std::optional<FaultProxy> proxy_;
  std::optional<Injector> injector_;
  bool begun_ = false;
};

}  // namespace gv
