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
  /// Accepts the reports of `from`. A value that makes no sense is replaced by that of an extremely
  /// slow link, so wrong reports can only lead to a slow order.
  void add(PeerId from, const std::vector<LinkReport>& reports);

  /// The cost of this link; nullopt if no peer has reported it.
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
  /// The slowest measured link in use, with its cost for the largest message.
  std::optional<MeasuredLink> slowest;
};

/// The size of the vector to sum, the site, and the present duration of a collective.
struct ReduceNeeds {
  std::size_t elements = 0;
  std::optional<ReduceAlgorithm> algorithm;  ///< The algorithm to use; nullopt allows any.
  double operation_seconds = 0;  ///< Present duration of a collective and the computation before
                                 ///< it; 0 means unknown.
  ReduceSite site;               ///< The hosts and links of all peers.
};

/// Predicts the seconds that a sum takes. Each phase takes as long as its busiest peer, which sends
/// or receives one message after the other. The result is never less than the processors' working
/// time. If `measured_only` is true, an unmeasured link makes the result nullopt. Otherwise such a
/// link has the site's assumed cost.
std::optional<double> predicted_seconds(const ReduceChoice& choice, const LinkTable& links,
                                        const ReduceNeeds& needs, bool measured_only);

/// Returns the order and algorithm with the shortest predicted time. All links that they use must
/// be measured, and a collective, with its computation, must be at least 15 % faster than with
/// `present`. Otherwise returns `present`, so nothing changes if all links are similar. If
/// `present` has been faster than predicted, its measured time counts. Fills in `slowest`. A new
/// order comes from `ring_order`, for the size of the ring's messages; the call takes about as long
/// as `ring_order`.
ReduceChoice better_choice(ReduceChoice present, const LinkTable& links, const ReduceNeeds& needs);

}  // namespace gv
