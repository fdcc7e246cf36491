// Counts facts of a virtual run: exchanges, refusals, deaths, staleness.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "peer/node/facts.hpp"
#include "sim/virtual/simulator.hpp"

namespace gv {

/// Counts over all peers since the start.
class Tally : public Watcher {
 public:
  void on_effects(const Simulator& world, PeerNumber peer, const NodeEffects& effects) override;
  void on_job_done(const Simulator& world, PeerNumber peer, const JobDone& done) override;
  void on_fault_event(const Simulator& world, const FaultEvent& fault_event) override;

  /// Number of facts of type F.
  template <class F>
  std::uint64_t count() const {
    return counts_.of<F>();
  }
  /// Counts of all facts, by name.
  std::map<std::string, std::uint64_t> by_name() const { return counts_.by_name(); }
  /// Counts by name and reason, for example "exchange_aborted timed_out".
  const std::map<std::string, std::uint64_t>& by_reason() const { return by_reason_; }
  const std::map<std::string, std::uint64_t>& injected() const { return injected_; }

  /// Number of exchanges. Each side that commits an exchange counts as a half.
  double exchanges() const { return static_cast<double>(count<ExchangeCommitted>()) / 2; }
  std::uint64_t steps() const { return steps_; }
  /// The step of the peer's model, not counting the mean with which all peers end.
  std::uint64_t step_of(PeerNumber peer) const {
    const auto known = step_of_.find(peer);
    return known != step_of_.end() ? known->second : 0;
  }
  /// Mean absolute difference in local steps between the two sides of an exchange.
  double staleness() const;
  /// Mean virtual seconds from offer to commit.
  double exchange_seconds() const;

 private:
  FactCounts counts_;
  std::map<std::string, std::uint64_t> by_reason_;
  std::map<std::string, std::uint64_t> injected_;
  std::uint64_t steps_ = 0;
  std::map<PeerNumber, std::uint64_t> step_of_;
  double steps_apart_ = 0;
  double seconds_ = 0;
};

}  // namespace gv
