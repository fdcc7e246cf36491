// The neighbours' models that a peer received in a round, and the change by averaging them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "consensus/mixing/mix_message.hpp"
#include "consensus/mixing/mix_rule.hpp"
#include "consensus/mixing/round_plan.hpp"

namespace gv {

/// A neighbour's decoded message of a round.
template <class Real>
struct HeardModel {
  std::size_t from = 0;
  double share = 0;   ///< w_ij.
  double weight = 1;  ///< As sent.
  std::uint32_t count =
      0;  ///< Models in a sum; the piece's number where each peer chooses its own.
  std::vector<Real> values;
};

/// The messages by rank, and those of one rank by round.
std::vector<const MixMessage*> in_order(std::span<const MixMessage> arrived);

/// Decodes the messages that arrived at `rank`, by rank of the sender. Where messages replace each
/// other, only the newest from each peer counts. `refused` counts the unusable ones.
template <class Real>
std::vector<HeardModel<Real>> heard_models(const MixRule& rule, const RoundPlan& plan,
                                           std::size_t rank, std::size_t elements,
                                           std::uint64_t round, std::span<const MixMessage> arrived,
                                           std::size_t& refused);

/// gamma sum_j w_ij (m_j - m_i), or the guard's aggregate instead, for one part of the messages: it
/// begins at `begin` and is as long as `own`, the same part of our message. `held_back` gets the
/// ranks that the guard took only in part or not at all.
template <class Real>
std::vector<Real> change_by(const MixRule& rule, std::span<const Real> own,
                            const std::vector<HeardModel<Real>>& others, std::size_t begin,
                            std::vector<std::size_t>& held_back);

/// x += gamma sum_j w_ij (m_j - x), each m_j where its piece belongs.
template <class Real>
void average_pieces(const MixRule& rule, std::span<Real> x,
                    const std::vector<HeardModel<Real>>& others);

}  // namespace gv
