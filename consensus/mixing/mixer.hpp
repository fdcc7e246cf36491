// One peer's side of mixing with neighbours: the vectors it keeps, its messages, and the update.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.hpp"
#include "consensus/mixing/heard_models.hpp"
#include "consensus/mixing/mix_message.hpp"
#include "consensus/mixing/mix_rule.hpp"
#include "consensus/mixing/neighbour_memory.hpp"
#include "consensus/mixing/round_plan.hpp"

namespace gv {

/// Vectors that a rule keeps beside the model, each as long as the model.
enum class MixRegister : std::uint8_t {
  before,         ///< The model before the local steps of a round.
  message,        ///< Our own message of the round, as others decode it.
  numerator,      ///< push_sum: the model times our weight, less our share of it in steps.
  companion,      ///< companion: the second vector, less the model while steps run.
  slow,           ///< noloco, slowmo: the model that the outer step moves.
  outer,          ///< noloco, slowmo: the momentum of the outer step.
  momentum,       ///< quasi_global, decentlam.
  tracker,        ///< tracking: follows the mean gradient.
  last_gradient,  ///< tracking.
  correction,     ///< d2: the sum of all changes that mixing has made.
  drift,          ///< Both differences: sum_j w_ij (j's reference - ours).
  error,          ///< error_feedback: what messages have lost so far.
  sent,           ///< FragmentOrder::largest: the model, each piece as it was last sent.
};
inline constexpr std::size_t mix_registers = 13;
std::string_view to_string(MixRegister name);

/// The calls of one round (x is the live model, of `elements` values):
///
///   begin_round(r, x)
///   combine_then_adapt: messages(r, x)
///   local steps on x; where `directs()`, each gradient passes through direct() before its step
///   end_steps(x, learning rate, steps)
///   adapt_then_combine: messages(r, x)
///   mix(r, x, messages that arrived)
///
/// Mixing is written as x + sum_j w_ij (m_j - m_i), so that equal models stay equal to the bit
/// where traits_of(rule).keeps_equal says so. Pure; `Real` is float or double (for closed forms).
/// With any codec but identity, doubles are rounded to floats in messages.
template <class Real>
class Mixer {
 public:
  /// `samples`, above 0, is the weight of our model if the rule weighs by samples.
  Mixer(const MixRule& rule, std::size_t elements, std::uint64_t seed, double samples = 1);

  /// From now on we are `rank` among the peers in this order. State about neighbours starts again
  /// from the present model, except for the copies of their references. Momentum and all other
  /// state of our own stays.
  void begin_generation(std::size_t rank, std::span<const PeerId> order, std::uint64_t key,
                        std::span<const Real> x);

  /// Drops all kept state, because the model was replaced by another peer's.
  void forget();

  /// To be called before a generation ends. `arrived` are messages of a round that will not be
  /// mixed; where neighbours remember each other, they still update our copies of the senders'
  /// references. `unsent` says that our own last messages were not sent to any peer.
  void close_generation(std::span<const MixMessage> arrived, bool unsent);

  void begin_round(std::uint64_t round, std::span<Real> x);
  bool directs() const;
  void direct(std::span<Real> gradient);
  void end_steps(std::span<Real> x, double learning_rate, std::uint64_t steps);

  /// The messages of this round. Empty if any value decodes to NaN or infinity; `is_sound()` is
  /// then false. Equal messages to several peers share their bytes.
  std::vector<MixMessage> messages(std::uint64_t round, std::span<Real> x);
  bool is_sound() const { return sound_; }
  /// Ends the round with the messages that arrived, by rank. Returns the number of unusable
  /// messages, which are left out. A neighbour without a message counts as if it had our own model.
  std::size_t mix(std::uint64_t round, std::span<Real> x, std::span<const MixMessage> arrived);

  /// Ranks whose models the guard took only in part or not at all in the last mix().
  const std::vector<std::size_t>& held_back() const { return held_back_; }

  RoundPlan& plan() { return *plan_; }
  const MixRule& rule() const { return rule_; }
  std::size_t rank() const { return rank_; }
  /// push_sum: our weight. All weights add up to n, or to the samples of all peers.
  double weight() const { return weight_; }
  std::span<const Real> kept(MixRegister name) const { return at(name); }
  /// The references of difference and replicated_difference.
  const NeighbourMemory<Real>& memory() const { return memory_; }

  /// The vectors that a checkpoint has to hold so that a later generation goes on as if there had
  /// been no stop. restore() is the inverse and ignores unknown names.
  std::vector<std::pair<std::string_view, std::vector<Real>>> lasting() const;
  void restore(std::string_view name, std::span<const Real> values);

 private:
  using Vector = std::vector<Real>;
  using Heard = HeardModel<Real>;

  Vector& at(MixRegister name) { return registers_[static_cast<std::size_t>(name)]; }
  const Vector& at(MixRegister name) const { return registers_[static_cast<std::size_t>(name)]; }
  Vector& zeros_if_new(MixRegister name);
  std::pair<std::size_t, std::size_t> range(std::uint64_t round) const;

  std::shared_ptr<std::vector<std::byte>> encoded(std::uint64_t round, std::uint64_t salt,
                                                  std::span<const std::span<const Real>> words,
                                                  const MixHeader& header) const;
  std::vector<MixMessage> to_all(std::uint64_t round, std::span<const std::span<const Real>> words,
                                 std::span<Real> as_decoded, double weight = 1,
                                 std::uint32_t count = 1);
  std::vector<MixMessage> largest_piece(std::uint64_t round, std::span<const Real> x);
  std::vector<MixMessage> relayed(std::uint64_t round, std::span<const Real> x);
  std::vector<MixMessage> differences(std::uint64_t round, std::span<Real> x);
  std::size_t learn(std::span<const MixMessage> arrived);
  void follow(std::uint64_t round, std::span<Real> x);

  void average(std::uint64_t round, std::span<Real> x, const std::vector<Heard>& others);
  Vector change(const std::vector<Heard>& others, std::size_t begin, std::size_t size);
  void outer_step(std::uint64_t round, std::span<Real> x);
  void mix_push_sum(std::span<Real> x, const std::vector<Heard>& others);
  void mix_relay_sum(std::span<Real> x, const std::vector<Heard>& others);
  void mix_companion(std::span<Real> x, const std::vector<Heard>& others);
  void mix_noloco(std::span<Real> x, const std::vector<Heard>& others);
  void mix_downpour(std::span<Real> x, const std::vector<Heard>& others);

  MixRule rule_;
  MixTraits traits_;
  std::size_t elements_;
  std::uint64_t seed_;
  double share_;  ///< push_sum: our weight when a generation begins, and that of our steps.
  std::size_t rank_ = 0;
  std::uint64_t key_ = 0;
  std::optional<RoundPlan> plan_;
  std::array<Vector, mix_registers> registers_;
  NeighbourMemory<Real> memory_;
  /// relay_sum: the last sum of each neighbour.
  std::map<std::size_t, std::pair<Vector, std::uint32_t>> relayed_;
  double weight_ = 1;
  std::vector<std::uint64_t> piece_due_;  ///< Rounds by which each piece is sent, changed or not.
  double leaning_ = 0;  ///< companion: h, the rate at which model and companion approach.
  double pull_ = 0.5;   ///< companion: the part of a difference that the companion takes.
  double learning_rate_ = 0;
  std::uint64_t steps_ = 1;
  bool sound_ = true;
  std::vector<std::size_t> held_back_;
};

extern template class Mixer<float>;
extern template class Mixer<double>;

}  // namespace gv
