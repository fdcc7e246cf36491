// What the steps of a mixing rule share: a peer's place in the plan, its messages, and what it
// hears.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.hpp"
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

/// One peer among those that mix.
template <class Real>
struct MixPeer {
  MixRule rule;
  std::size_t elements = 0;  ///< Of a model.
  std::uint64_t seed = 0;
  double share = 1;  ///< push_sum: our weight when a generation begins, and that of our steps.

  // Of the generation:
  std::size_t rank = 0;
  std::vector<PeerId> order = {};
  std::uint64_t key = 0;
  std::optional<RoundPlan> plan = {};

  // Of the round:
  double weight = 1;  ///< Travels with every message.
  double learning_rate = 0;
  std::uint64_t steps = 1;
  std::vector<Real> message = {};  ///< Our own, as others decode it.
  bool is_sound = true;            ///< All values of our messages are finite as others decode them.
  std::vector<std::size_t> held_back = {};  ///< Ranks that the guard took only in part or not.

  /// Writes a message. `salt` tells those of one round apart.
  std::shared_ptr<std::vector<std::byte>> written(std::uint64_t round, std::uint64_t salt,
                                                  std::span<const std::span<const Real>> words,
                                                  const MixHeader& header) const;
  /// One message for all peers that hear us; the values that they decode become `message`.
  std::vector<MixMessage> to_all(std::uint64_t round, std::span<const std::span<const Real>> words,
                                 std::uint32_t count);

  /// Decodes the messages that arrived, by rank of the sender. Where messages replace each other,
  /// only the newest from each peer counts. `refused` counts the unusable ones.
  std::vector<HeardModel<Real>> heard(std::uint64_t round, std::span<const MixMessage> arrived,
                                      std::size_t& refused) const;
  /// gamma sum_j w_ij (m_j - m_i), or the guard's aggregate instead, for the part of all messages
  /// that begins at `begin`.
  std::vector<Real> change(const std::vector<HeardModel<Real>>& others, std::size_t begin,
                           std::size_t size);
};

extern template struct MixPeer<float>;
extern template struct MixPeer<double>;

}  // namespace gv
