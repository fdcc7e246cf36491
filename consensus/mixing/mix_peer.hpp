// State that all steps of a mixing rule share: our place in the plan, and messages in and out.
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

/// The decoded message of one neighbour in a round.
template <class Real>
struct HeardModel {
  std::size_t from = 0;
  double share = 0;   ///< The weight that we give this neighbour, w_ij or less.
  double weight = 1;  ///< The sender's push_sum weight, as received.
  /// Number of models that the message sums up. If each peer chooses its own piece, this is the
  /// piece's index instead.
  std::uint32_t count = 0;
  std::vector<Real> values;
};

/// Returns the messages sorted by the sender's rank. Messages of the same sender are sorted by
/// round.
std::vector<const MixMessage*> in_order(std::span<const MixMessage> arrived);

/// The state of one peer that mixes.
template <class Real>
struct MixPeer {
  static constexpr std::size_t field_count = 14;

  MixRule rule;
  std::size_t elements = 0;  ///< Number of values in a model.
  std::uint64_t seed = 0;
  /// push_sum: our weight at the start of a generation. Local steps always count with this weight.
  double share = 1;

  // Set when a generation begins:
  std::size_t rank = 0;
  std::vector<PeerId> order = {};
  std::uint64_t key = 0;
  std::optional<RoundPlan> plan = {};

  // Set in each round:
  double weight = 1;  ///< Our push_sum weight. Every message contains it.
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
  /// Makes one message for all out-neighbours. Stores in `message` the values that they will
  /// decode.
  std::vector<MixMessage> to_all(std::uint64_t round, std::span<const std::span<const Real>> words,
                                 std::uint32_t count);

  /// Decodes the messages that arrived, in the order of the senders' ranks. Uses only each sender's
  /// newest message if the rule lets newer messages replace older ones. With staleness, the shares
  /// are scaled down if they would exceed 1 in total, except under rules whose messages are parts
  /// of sums. Adds the number of unusable messages to `refused`.
  std::vector<HeardModel<Real>> heard(std::uint64_t round, std::span<const MixMessage> arrived,
                                      std::size_t& refused) const;
  /// The change that the neighbours' messages m_j cause: gamma sum_j w_ij (m_j - m_i), where m_i is
  /// our own message. If the rule has a guard, the guard's robust aggregate replaces the sum. The
  /// guard also counts the neighbours whose messages are missing. Uses only the `size` values of
  /// each message from `begin` on.
  std::vector<Real> change(std::uint64_t round, const std::vector<HeardModel<Real>>& others,
                           std::size_t begin, std::size_t size);
};

extern template struct MixPeer<float>;
extern template struct MixPeer<double>;

}  // namespace gv
