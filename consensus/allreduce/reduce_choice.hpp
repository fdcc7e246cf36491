// Chooses the order of peers and the algorithm of a collective from the measured links.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/ids.hpp"
#include "base/shares.hpp"
#include "consensus/allreduce/reduce_plan.hpp"
#include "consensus/message/message.hpp"

namespace gv {

/// The costs that peers have reported for their outgoing links.
class LinkTable {
 public:
  /// Accepts the reports of `from`. Wrong reports can only lead to a slow order: a value that makes
  /// no sense counts as a link that carries nothing.
  void add(PeerId from, const std::vector<LinkReport>& reports);

  /// Empty if no peer has reported this link.
  std::optional<LinkCost> find(PeerId from, PeerId to) const;
  bool empty() const { return costs_.empty(); }

 private:
  std::map<std::pair<PeerId, PeerId>, LinkCost> costs_;
};

/// A link with its two ends and its cost.
struct MeasuredLink {
  PeerId from{};
  PeerId to{};
  LinkCost cost;
};

/// The order and algorithm of collectives.
struct ReduceChoice {
  std::vector<PeerId> order;  ///< The position is the rank.
  ReduceAlgorithm algorithm = ReduceAlgorithm::ring;
  /// The slowest measured link in use, for the largest message.
  std::optional<MeasuredLink> slowest;
};

/// The size of the vector to sum, the site, and the present duration of a collective.
struct ReduceNeeds {
  std::size_t elements = 0;
  std::optional<ReduceAlgorithm> algorithm;  ///< The algorithm to use; empty: any.
  double operation_seconds = 0;  ///< Present duration of a collective and its computing; 0:
                                 ///< unknown.
  ReduceSite site;               ///< Where all peers run.
};

/// The predicted seconds of a sum. Each phase takes as long as its busiest peer, which sends or
/// receives one message after the other; all phases together take at least the processors' work. An
/// unmeasured link has the site's assumed cost; with `measured_only` the result is then empty.
std::optional<double> predicted_seconds(const ReduceChoice& choice, const LinkTable& links,
                                        const ReduceNeeds& needs, bool measured_only);

/// The order and algorithm with the shortest predicted time, if all their links were measured and
/// they make a collective and its computing at least 15 % faster than `present`. Otherwise returns
/// `present`, so nothing changes if all links are similar. If `present` was in fact faster than
/// predicted, its measured time is used. Fills in `slowest`. The order comes from `ring_order` (and
/// takes as long), for the size of the ring's messages.
ReduceChoice better_choice(ReduceChoice present, const LinkTable& links, const ReduceNeeds& needs);

}  // namespace gv
