// Quasi-global momentum: the momentum of the mixed model's movement.
#include <array>
#include <cstdint>

#include "consensus/mixing/mix_step.hpp"
#include "consensus/mixing/vector_steps.hpp"

namespace gv::rules {
namespace {

/// QG-DSGDm (Lin 2021): local steps go along gradient + beta momentum. After mixing, momentum = mu
/// momentum + (1 - mu) (before - x) / (learning rate * steps), where `before` is the model before
/// the local steps.
template <class Real>
class QuasiGlobal : public MixStep<Real> {
 public:
  friend class gv::Fields;
  static constexpr std::size_t field_count = 2;
  using typename MixStep<Real>::Vector, typename MixStep<Real>::KeptVectors;
  using typename MixStep<Real>::Peer;
  using typename MixStep<Real>::Inbox;

  KeptVectors kept() override { return {{"before", &before_}, {"momentum", &momentum_, true}}; }

  void begin_round(Peer&, std::span<Real> x) override { before_.assign(x.begin(), x.end()); }

  void direct(Peer& peer, std::span<Real> gradient) override {
    add<Real>(gradient, zeros_if_new(momentum_, peer.elements), peer.rule.momentum);
  }

  void mix(Peer& peer, Inbox&, std::span<Real> x) override {
    const double smoothing = peer.rule.smoothing;
    const auto scale =
        static_cast<Real>((1 - smoothing) / (peer.learning_rate * static_cast<double>(peer.steps)));
    zeros_if_new(momentum_, peer.elements);
    for (std::size_t i = 0; i < x.size(); ++i) {
      momentum_[i] = static_cast<Real>(smoothing) * momentum_[i] + scale * (before_[i] - x[i]);
    }
  }

  void hold(const Peer& peer, Real bound) override {
    hold_within<Real>(momentum_, largest_slope(bound, peer.learning_rate));
  }

 private:
  Vector before_;  ///< The model before the local steps of a round.
  Vector momentum_;
};

/// The largest allowed number of rounds from one round between hosts to the next. Until hosts mix
/// again, the momentum on each host follows only that host's changes. With the default momentum,
/// two hosts of equal size settle with up to 20 rounds, and diverge from 24 on.
constexpr std::uint32_t hosts_every_max = 16;

constexpr std::array quasi_global_constraints = {
    MixConstraint{"hosts_every",
                  [](const MixRule& rule) {
                    return rule.topology.kind == TopologyKind::hosts &&
                           rule.topology.hosts_every > hosts_every_max;
                  },
                  "momenta of hosts that meet more seldom than every 16 rounds run apart",
                  "write hosts_every = 16, or take another topology"}};

}  // namespace

extern const MixPart quasi_global;
constinit const MixPart quasi_global{
    .name = "quasi_global",
    .traits = {.directs = true, .plain_steps = true, .has_momentum = true, .vectors = 2},
    .constraints = quasi_global_constraints,
    .make = maker_of<QuasiGlobal>};

}  // namespace gv::rules
