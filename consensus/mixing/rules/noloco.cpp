// NoLoCo: momentum on a group's mean change, and a pull between its models.
#include <array>
#include <utility>

#include "consensus/mixing/mix_step.hpp"
#include "consensus/mixing/vector_steps.hpp"
#include "consensus/topology/graphs.hpp"

namespace gv::rules {
namespace {

/// NoLoCo (Kolehmainen 2025): the slow model moves by the group's mean change and towards the
/// others' slow models. outer = a outer + lr sum_j w_ij change_j + gamma sum_j w_ij (slow_j -
/// slow_i); slow += outer; x = slow.
template <class Real>
class NoLoCo : public MixStep<Real> {
 public:
  friend class gv::Fields;
  static constexpr std::size_t field_count = 3;
  using typename MixStep<Real>::Vector, typename MixStep<Real>::KeptVectors;
  using typename MixStep<Real>::Peer;
  using typename MixStep<Real>::Draft, typename MixStep<Real>::Inbox;

  KeptVectors kept() override { return {{"slow", &slow_}, {"outer", &outer_, true}}; }

  void begin_generation(Peer& peer, std::span<const Real> x) override {
    zeros_if_new(outer_, peer.elements);
    slow_.assign(x.begin(), x.end());
  }

  void write(Peer&, Draft& draft, std::span<Real> x) override {
    change_.assign(x.begin(), x.end());
    take_away<Real>(change_, slow_);
    draft.words = {slow_, change_};
  }

  void mix(Peer& peer, Inbox& inbox, std::span<Real> x) override {
    const std::size_t n = peer.elements;
    const std::span<const Real> message = peer.message;
    Vector mean(message.begin() + static_cast<std::ptrdiff_t>(n), message.end());
    Vector together(n, 0);
    for (const HeardModel<Real>& other : inbox.others) {
      const auto share = static_cast<Real>(other.share);
      for (std::size_t i = 0; i < n; ++i) {
        together[i] += share * (other.values[i] - message[i]);
        mean[i] += share * (other.values[n + i] - message[n + i]);
      }
    }
    hold_within<Real>(mean, 2 * inbox.bound);
    hold_within<Real>(together, 2 * inbox.bound);
    for (std::size_t i = 0; i < n; ++i) {
      outer_[i] = static_cast<Real>(peer.rule.momentum) * outer_[i] +
                  static_cast<Real>(peer.rule.outer_learning_rate) * mean[i] +
                  static_cast<Real>(peer.rule.gamma) * together[i];
      x[i] = slow_[i] += outer_[i];
    }
  }

  void hold(const Peer&, Real bound) override {
    hold_within<Real>(slow_, bound);
    hold_within<Real>(outer_, 2 * bound);
  }

 private:
  Vector slow_;   ///< The model that the outer step moves.
  Vector outer_;  ///< The momentum of the outer step.
  /// The change of the model since the last round, kept while a message is written.
  Vector change_;
};

/// The smallest gamma with which the models of many peers diverge, even without local steps, if
/// rounds have different weights. Below, `a` is the momentum. With drawn pairs, each difference is
/// reduced in half of the rounds. Let d be a difference and v its momentum. At gamma = 2 (1 - a^2),
/// the means of d^2, d v and v^2 over the draws stay constant. With fewer peers, models still
/// settle with a slightly larger gamma (docs/theory.md, T12). Rounds in a fixed order may reduce a
/// difference once and then leave it alone for many rounds. Meanwhile, its momentum continues, and
/// moves the difference by gamma / (1 - a) of its size in total. From gamma = 2 (1 - a) on, the
/// difference changes sign and grows.
double smallest_unstable_gamma(const MixRule& rule) {
  const bool has_pairs = rule.partners == Partners::pairs;
  const bool draws_any_pair =
      (rule.partners == Partners::neighbours && rule.topology.kind == TopologyKind::matching) ||
      (has_pairs && (rule.topology.kind == TopologyKind::matching ||
                     rule.topology.kind == TopologyKind::complete));
  const double a = rule.momentum;
  return 2 * (1 - a) * (draws_any_pair ? 1 + a : 1);
}

/// This constraint does not apply if all rounds have the same weights. Then the bound of plain
/// averages, 2, is strict enough, because models settle with a gamma up to 2 (1 + a).
constexpr std::array noloco_constraints = {MixConstraint{
    "gamma",
    [](const MixRule& rule) {
      const bool is_static = is_graph(rule.topology.kind) && rule.partners == Partners::neighbours;
      return !is_static && rule.gamma >= smallest_unstable_gamma(rule);
    },
    "with momentum {momentum} models run apart, however small the learning rate",
    "write momentum = 0.5 and gamma = 0.7, which are stable in all topologies"}};

}  // namespace

// conserves_mean: only local steps change the mean of the slow models.
extern const MixPart noloco;
constinit const MixPart noloco{.name = "noloco",
                               .traits = {.conserves_mean = true,
                                          .keeps_equal = true,
                                          .needs_the_mean = true,
                                          .needs_rounds_in_step = true,
                                          .has_momentum = true,
                                          .vectors = 4,
                                          .words = 2},
                               .constraints = noloco_constraints,
                               .make = maker_of<NoLoCo>};

}  // namespace gv::rules
