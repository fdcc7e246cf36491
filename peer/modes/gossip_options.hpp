// Options of mode `gossip`: when a peer exchanges, with which peer, and how strongly.
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

/// How often and how strongly a peer exchanges. The course determines the layout in `exchange`.
struct GossipOptions {
  /// The nominal number of local steps between exchanges; see TriggerKind.
  std::uint64_t period_steps = 16;
  TriggerKind trigger = TriggerKind::steps;  ///< Must be `steps` for PairingKind::matching, because
                                             ///< only `steps` has rounds.
  double target_spread = 0;  ///< The desired distance between models, for TriggerKind::spread.
  PairingKind pairing = PairingKind::matching;
  /// Partners are neighbours in this topology. It must work with pair exchanges
  /// (problem_with_pairs), and with uniform pairing it must be a graph. While it does not suit the
  /// live peers, any two peers may meet.
  Topology topology;
  double alpha = 0.5;  ///< Elastic coefficient; 0.5 averages the pair, 0 switches gossip off.
  /// True if alpha is scaled with the learning rate (like EASGD with a fixed rho).
  bool alpha_with_learning_rate = false;
  /// Only for a star. If true, the peer with the smallest id is a centre (as in EASGD). Unless it
  /// is alone, a centre only answers other peers' offers: it does not train, and it begins no
  /// exchange.
  bool centre_rests = false;
  double peak_learning_rate = 0;  ///< The learning rate at which alpha is used unscaled.
  /// If a peer that joins or wakes up is this many periods behind another peer, it downloads a
  /// model.
  std::uint64_t catch_up_periods = 8;
  Duration job_max = std::chrono::milliseconds(250);  ///< The longest time that a job should take.
  PairExchange::Options exchange;
  PopulationOptions population;
  AllReduceOptions mean;  ///< How the common mean at the end of the swarm's budget is computed.
};

}  // namespace gv
