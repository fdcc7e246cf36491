// One peer's side of mixing with neighbours: its kept vectors, its messages, and the update.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.hpp"
#include "consensus/mixing/mix_message.hpp"
#include "consensus/mixing/mix_peer.hpp"
#include "consensus/mixing/mix_rule.hpp"
#include "consensus/mixing/mix_step.hpp"
#include "consensus/mixing/round_plan.hpp"

namespace gv {

/// The calls of one round (x is the live model, of `elements` values):
///
///   begin_round(r, x)
///   combine_then_adapt: messages(r, x)
///   local steps on x; if `directs()`, each gradient passes through direct() before its step
///   end_steps(x, learning rate, steps)
///   adapt_then_combine: messages(r, x)
///   mix(r, x, messages that arrived)
///
/// At each of these points, the mixer calls every step of the rule (see MixStep). Mixing is written
/// as x + sum_j w_ij (m_j - m_i), so that equal models stay equal bit for bit if
/// traits_of(rule).keeps_equal says so. Pure, with value semantics. `Real` is float, or double for
/// tests against closed forms. Every codec except identity rounds doubles to floats in messages.
template <class Real>
class Mixer {
 public:
  /// `samples` (above 0) is the weight of our model if the rule weighs peers by samples.
  Mixer(const MixRule& rule, std::size_t elements, std::uint64_t seed, double samples = 1);
  Mixer(const Mixer& other);
  Mixer(Mixer&&) = default;
  Mixer& operator=(const Mixer& other) { return *this = Mixer(other); }
  Mixer& operator=(Mixer&&) = default;
  bool operator==(const Mixer& other) const;
  void add_to(StateHash& hash) const;

  /// Sets our rank among the peers in `order`. State about neighbours restarts from the present
  /// model, except for the copies of their references. Other state, such as momentum, is kept.
  /// `key` is the generation's key, and `hosts` is as in RoundPlan.
  void begin_generation(std::size_t rank, std::span<const PeerId> order, std::uint64_t key,
                        std::span<const Real> x, std::vector<std::size_t> hosts = {});

  /// Drops all kept state, because another peer's model replaced ours.
  void forget();

  /// Must be called before a generation ends. `arrived` holds messages of a round that will not be
  /// mixed. If neighbours keep copies of references, these messages still update our copies.
  /// `unsent` is true if our own last messages reached no peer.
  void close_generation(std::span<const MixMessage> arrived, bool unsent);

  void begin_round(std::uint64_t round, std::span<Real> x);
  bool directs() const { return traits_.directs; }
  void direct(std::span<Real> gradient);
  void end_steps(std::span<Real> x, double learning_rate, std::uint64_t steps);

  /// The messages of this round. Empty if any value decodes to NaN or infinity; `is_sound()` is
  /// then false. Also empty if the rule sends nothing in this round. Equal messages to several
  /// peers share their bytes.
  std::vector<MixMessage> messages(std::uint64_t round, std::span<Real> x);
  bool is_sound() const { return peer_.is_sound; }
  /// Ends the round with the messages that arrived, in any order. Returns the number of unusable
  /// messages, which are ignored. A neighbour without a message counts as if it had our model.
  /// Clamps every value of x to at most `bound` in magnitude. Limits the kept vectors too, so that
  /// they cannot later take x far beyond the bound.
  std::size_t mix(std::uint64_t round, std::span<Real> x, std::span<const MixMessage> arrived,
                  Real bound = std::numeric_limits<Real>::infinity());

  /// Ranks whose models the guard accepted only in part or not at all in the last mix().
  const std::vector<std::size_t>& held_back() const { return peer_.held_back; }

  RoundPlan& plan() { return *peer_.plan; }
  const MixRule& rule() const { return peer_.rule; }
  std::size_t rank() const { return peer_.rank; }
  /// push_sum: our weight. The weights of all peers add up to the number of peers or of their
  /// samples.
  double weight() const { return peer_.weight; }
  /// The vector that a step keeps under this name. Empty if there is none.
  std::span<const Real> kept(std::string_view name) const;
  /// The references of difference and replicated_difference. Null with other rules.
  const NeighbourMemory<Real>* memory() const;

  /// The vectors that a checkpoint must hold so that training continues after a restart as if it
  /// had not stopped. restore() is the inverse and ignores unknown names.
  std::vector<std::pair<std::string_view, std::vector<Real>>> lasting() const;
  void restore(std::string_view name, std::span<const Real> values);

 private:
  MixTraits traits_;  ///< The rule's traits.
  MixPeer<Real> peer_;
  std::vector<std::unique_ptr<MixStep<Real>>> steps_;
};

extern template class Mixer<float>;
extern template class Mixer<double>;

}  // namespace gv
