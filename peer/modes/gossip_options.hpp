// Options of mode `gossip`: when a peer exchanges, with whom, and how strongly.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/time.hpp"
#include "consensus/gossip/pair_exchange.hpp"
#include "consensus/topology/pairing.hpp"
#include "consensus/topology/topology.hpp"
#include "peer/modes/allreduce_options.hpp"
#include "peer/modes/exchange_trigger.hpp"
#include "peer/modes/population.hpp"

namespace gv {

/// How often and how strongly a peer exchanges. The layout in `exchange` is filled in from the
/// course.
struct GossipOptions {
  std::uint64_t period_steps = 16;  ///< Nominal local steps between exchanges; see TriggerKind.
  TriggerKind trigger = TriggerKind::steps;  ///< PairingKind::matching needs the rounds of `steps`.
  double target_spread = 0;                  ///< Desired distance for TriggerKind::spread.
  PairingKind pairing = PairingKind::matching;
  /// Partners are neighbours in this topology. It must run as pairs (problem_with_pairs), and be a
  /// graph for uniform pairing. While it does not fit the live peers, any two peers may meet.
  Topology topology;
  double alpha = 0.5;  ///< Elastic coefficient; 0.5 averages the pair, 0 switches gossip off.
  /// Scale alpha with the learning rate (as EASGD does with a fixed rho).
  bool alpha_with_learning_rate = false;
  /// Only for a star: the peer with the smallest id answers exchanges, but neither trains nor asks
  /// for any (EASGD's centre), unless it is alone.
  bool centre_rests = false;
  double peak_learning_rate = 0;  ///< Learning rate at which alpha is used unscaled.
  /// A peer that joins or wakes up this many periods behind another downloads a model.
  std::uint64_t catch_up_periods = 8;
  Duration job_max = std::chrono::milliseconds(250);  ///< Desired longest duration of a job.
  PairExchange::Options exchange;
  PopulationOptions population;
  AllReduceOptions mean;  ///< With the swarm's budget: how the common end is computed.
};

}  // namespace gv
