// What a peer has heard of its neighbours in a round, and the change that averaging makes of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "consensus/mixing/mix_message.hpp"
#include "consensus/mixing/mix_rule.hpp"
#include "consensus/mixing/round_plan.hpp"

namespace gv {

/// A neighbour's message of a round, as it was decoded.
template <class Real>
struct HeardModel {
  std::size_t from = 0;
  double share = 0;         ///< w_ij.
  double weight = 1;        ///< As sent.
  std::uint32_t count = 0;  ///< Models in a sum; of pieces by size: which one it is.
  std::vector<Real> values;
};

/// In the order of ranks, and of rounds.
std::vector<const MixArrival*> in_order(std::span<const MixArrival> arrived);

/// What can be read by `rank` of what came, by rank; of several from one peer the newest, where
/// they replace each other. `refused` counts what is of no use.
template <class Real>
std::vector<HeardModel<Real>> heard_models(const MixRule& rule, const RoundPlan& plan,
                                           std::size_t rank, std::size_t elements,
                                           std::uint64_t round, std::span<const MixArrival> arrived,
                                           std::size_t& refused);

/// gamma sum_j w_ij (m_j - m_i), or what the guard makes of it, for the part of the messages that
/// begins at `begin` and is as long as `own`, which is that part of ours. `held_back` gets whom the
/// guard took only in part or not at all.
template <class Real>
std::vector<Real> change_by(const MixRule& rule, std::span<const Real> own,
                            const std::vector<HeardModel<Real>>& others, std::size_t begin,
                            std::vector<std::size_t>& held_back);

/// x += gamma sum_j w_ij (m_j - x), each m_j where its piece belongs.
template <class Real>
void average_pieces(const MixRule& rule, std::span<Real> x,
                    const std::vector<HeardModel<Real>>& others);

}  // namespace gv
