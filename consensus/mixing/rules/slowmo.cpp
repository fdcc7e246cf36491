// SlowMo: a momentum step along the change of several rounds.
#include <array>

#include "consensus/mixing/mix_step.hpp"
#include "consensus/mixing/vector_steps.hpp"

namespace gv::rules {
namespace {

/// SlowMo (Wang 2020), every `outer_every` rounds: outer = beta outer + (slow - x) / eta, slow -=
/// lr eta outer, x = slow. eta is the learning rate of local steps, and lr that of the outer step.
template <class Real>
class SlowMo : public MixStep<Real> {
 public:
  friend class gv::Fields;
  static constexpr std::size_t field_count = 2;
  using typename MixStep<Real>::Vector, typename MixStep<Real>::KeptVectors;
  using typename MixStep<Real>::Peer;
  using typename MixStep<Real>::Inbox;

  KeptVectors kept() override { return {{"slow", &slow_}, {"outer", &outer_, true}}; }

  void begin_generation(Peer& peer, std::span<const Real> x) override {
    zeros_if_new(outer_, peer.elements);
    slow_.assign(x.begin(), x.end());
  }

  void mix(Peer& peer, Inbox& inbox, std::span<Real> x) override {
    if ((inbox.round + 1) % peer.rule.outer_every != 0) return;
    const auto rate = static_cast<Real>(peer.learning_rate);
    const auto step = static_cast<Real>(peer.rule.outer_learning_rate) * rate;
    const auto beta = static_cast<Real>(peer.rule.outer_momentum);
    for (std::size_t i = 0; i < x.size(); ++i) {
      outer_[i] = beta * outer_[i] + (slow_[i] - x[i]) / rate;
      x[i] = slow_[i] -= step * outer_[i];
    }
  }

  void hold(const Peer& peer, Real bound) override {
    hold_within<Real>(slow_, bound);
    hold_within<Real>(outer_, largest_slope(bound, peer.learning_rate));
  }

 private:
  Vector slow_;   ///< The model that the outer step moves.
  Vector outer_;  ///< The momentum of the outer step.
};

constexpr std::array slowmo_constraints = {
    MixConstraint{"outer_every",
                  [](const MixRule& rule) {
                    return rule.topology.kind == TopologyKind::hosts &&
                           rule.outer_every < rule.topology.hosts_every;
                  },
                  "outer steps between two meetings of hosts carry on what sets the hosts apart",
                  "write outer_every = hosts_every or more, or take another topology"}};

}  // namespace

extern const MixPart slowmo;
constinit const MixPart slowmo{.name = "slowmo",
                               .traits = {.vectors = 2},
                               .constraints = slowmo_constraints,
                               .make = maker_of<SlowMo>};

}  // namespace gv::rules
