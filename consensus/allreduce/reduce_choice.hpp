// In which order and by which plan a sum is made, from what peers say of their links.
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

/// What peers have said of the links that begin at them.
class LinkTable {
 public:
  /// Takes the word of `from`. It may be wrong, and then an order is a bad one, but no number in it
  /// does worse: what makes no sense counts as a link through which nothing gets.
  void add(PeerId from, const std::vector<LinkReport>& reports);

  /// Empty when nobody has said.
  std::optional<LinkCost> find(PeerId from, PeerId to) const;
  bool empty() const { return costs_.empty(); }

 private:
  std::map<std::pair<PeerId, PeerId>, LinkCost> costs_;
};

/// A link by its ends.
struct MeasuredLink {
  PeerId from{};
  PeerId to{};
  LinkCost cost;
};

/// How sums are made.
struct ReduceChoice {
  std::vector<PeerId> order;  ///< The place is the rank.
  ReduceAlgorithm algorithm = ReduceAlgorithm::ring;
  std::optional<MeasuredLink>
      slowest;  ///< Of those measured that it uses, for its largest message.
};

/// What is summed, and how long that takes as it is.
struct ReduceNeeds {
  std::size_t elements = 0;
  std::optional<ReduceAlgorithm> algorithm;  ///< Empty: any.
  double operation_seconds = 0;              ///< Of `present`, computing included; 0: unknown.
  ReduceSite site;                           ///< Of all of them.
};

/// Seconds predicted for a sum: each phase takes as long as the peer that sends or receives longest
/// in it, one message after the other, but all of them as long as the processors' work. Links
/// without a measurement cost what is assumed; empty, if `measured_only` and there is one.
std::optional<double> predicted_seconds(const ReduceChoice& choice, const LinkTable& links,
                                        const ReduceNeeds& needs, bool measured_only);

/// The order and algorithm that are predicted to be the fastest, if they make an operation at least
/// 15 % quicker than `present` does and all their links were measured; or else `present` again. So
/// nothing changes where links are alike. A present that was in fact quicker than is predicted for
/// it is taken for as quick as it was. `slowest` is filled in. The order is that of `ring_order`
/// (whose costs it has) for the size that messages have round the ring.
ReduceChoice better_choice(ReduceChoice present, const LinkTable& links, const ReduceNeeds& needs);

}  // namespace gv
