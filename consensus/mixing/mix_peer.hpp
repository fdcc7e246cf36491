// State that all steps of a mixing rule share: our place in the plan, our messages, what we
// receive.
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
  double share = 0;   ///< w_ij, the weight that we give this neighbour.
  double weight = 1;  ///< The sender's push_sum weight, as received.
  /// Number of models in a sum. If each peer chooses its own piece, the piece's index instead.
  std::uint32_t count = 0;
  std::vector<Real> values;
};

/// Sorts the messages by rank, and messages of the same rank by round.
std::vector<const MixMessage*> in_order(std::span<const MixMessage> arrived);

/// One of the peers that mix.
template <class Real>
struct MixPeer {
  static constexpr std::size_t field_count = 14;

  MixRule rule;
  std::size_t elements = 0;  ///< Number of values in a model.
  std::uint64_t seed = 0;
  /// push_sum: our weight at the start of a generation, and the weight of our steps.
  double share = 1;

  // Set when a generation begins:
  std::size_t rank = 0;
  std::vector<PeerId> order = {};
  std::uint64_t key = 0;
  std::optional<RoundPlan> plan = {};

  // Set in each round:
  double weight = 1;  ///< Our push_sum weight. Every message carries it.
  double learning_rate = 0;
  std::uint64_t steps = 1;
  std::vector<Real> message = {};  ///< Our own message as the receivers decode it.
  bool is_sound = true;            ///< False if a value of our messages decodes to NaN or infinity.
  /// Ranks whose models the guard accepted only in part or not at all.
  std::vector<std::size_t> held_back = {};

  /// Writes a message. `salt` gives the messages of one round different random numbers.
  std::shared_ptr<std::vector<std::byte>> written(std::uint64_t round, std::uint64_t salt,
                                                  std::span<const std::span<const Real>> words,
                                                  const MixHeader& header) const;
  /// One message for all out-neighbours. Stores in `message` the values that they will decode.
  std::vector<MixMessage> to_all(std::uint64_t round, std::span<const std::span<const Real>> words,
                                 std::uint32_t count);

  /// Decodes the messages that arrived, in the order of the senders' ranks. If a newer message
  /// replaces an older one under the rule, uses only the newest of each sender. Adds the number of
  /// unusable messages to `refused`.
  std::vector<HeardModel<Real>> heard(std::uint64_t round, std::span<const MixMessage> arrived,
                                      std::size_t& refused) const;
  /// The change that the neighbours cause: gamma sum_j w_ij (m_j - m_i), or what the guard computes
  /// instead, which also counts the neighbours of the round that were not heard. Uses only the part
  /// of each message that starts at `begin`.
  std::vector<Real> change(std::uint64_t round, const std::vector<HeardModel<Real>>& others,
                           std::size_t begin, std::size_t size);
};

extern template struct MixPeer<float>;
extern template struct MixPeer<double>;

}  // namespace gv
