// DecentLaM: the momentum of the mixed gradient.
#include "consensus/mixing/mix_step.hpp"
#include "consensus/mixing/vector_steps.hpp"

namespace gv::rules {
namespace {

/// DecentLaM (Yuan 2021): momentum = beta momentum + (before - mixed) / rate, then x = before -
/// rate momentum. `before` is the model before the local step, and rate is the learning rate.
template <class Real>
class DecentLaM : public MixStep<Real> {
 public:
  friend class gv::Fields;
  static constexpr std::size_t field_count = 2;
  using typename MixStep<Real>::Vector, typename MixStep<Real>::KeptVectors;
  using typename MixStep<Real>::Peer;
  using typename MixStep<Real>::Inbox;

  KeptVectors kept() override { return {{"before", &before_}, {"momentum", &momentum_, true}}; }

  void begin_round(Peer&, std::span<Real> x) override { before_.assign(x.begin(), x.end()); }

  void mix(Peer& peer, Inbox&, std::span<Real> x) override {
    const auto rate = static_cast<Real>(peer.learning_rate);
    const auto beta = static_cast<Real>(peer.rule.momentum);
    zeros_if_new(momentum_, peer.elements);
    for (std::size_t i = 0; i < x.size(); ++i) {
      momentum_[i] = beta * momentum_[i] + (before_[i] - x[i]) / rate;
      x[i] = before_[i] - rate * momentum_[i];
    }
  }

  void hold(const Peer& peer, Real bound) override {
    hold_within<Real>(momentum_, largest_slope(bound, peer.learning_rate));
  }

 private:
  Vector before_;  ///< The model before the local step of a round.
  Vector momentum_;
};

}  // namespace

extern const MixPart decentlam;
constinit const MixPart decentlam{.name = "decentlam",
                                  .traits = {.one_by_one = true,
                                             .plain_steps = true,
                                             .needs_same_weights = true,
                                             .has_momentum = true,
                                             .vectors = 2},
                                  .make = maker_of<DecentLaM>};

}  // namespace gv::rules
