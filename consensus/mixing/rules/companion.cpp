// A2CiD2: the model and a second vector attract each other.
#include <array>
#include <cmath>

#include "consensus/mixing/companion_rates.hpp"
#include "consensus/mixing/mix_step.hpp"
#include "consensus/mixing/vector_steps.hpp"

namespace gv::rules {
namespace {

/// A2CiD2 (Nabli 2023), with a round as the unit of time.
template <class Real>
class Companion : public MixStep<Real> {
 public:
  friend class gv::Fields;
  static constexpr std::size_t field_count = 2;
  using typename MixStep<Real>::Vector, typename MixStep<Real>::KeptVectors;
  using typename MixStep<Real>::Peer;
  using typename MixStep<Real>::Draft, typename MixStep<Real>::Inbox;

  KeptVectors kept() override { return {{"companion", &companion_}}; }

  void begin_generation(Peer& peer, std::span<const Real> x) override {
    companion_.assign(x.begin(), x.end());
    rates_ = companion_rates(*peer.plan);
  }

  /// Moves model and companion towards each other for one round. The flow exp([[-h, h], [h, -h]]),
  /// where h is `leaning`, keeps their sum and multiplies their difference by exp(-2 h).
  void begin_round(Peer&, std::span<Real> x) override {
    const auto flow = static_cast<Real>((1 - std::exp(-2 * rates_.leaning)) / 2);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Real d = flow * (companion_[i] - x[i]);
      x[i] += d;
      companion_[i] -= d;
    }
    take_away<Real>(companion_, x);
  }

  void end_steps(Peer&, std::span<Real> x) override { add<Real>(companion_, x); }

  void write(Peer&, Draft& draft, std::span<Real> x) override { draft.words.push_back(x); }

  void mix(Peer& peer, Inbox& inbox, std::span<Real> x) override {
    Vector moves = peer.change(inbox.round, inbox.others, 0, peer.elements);
    add_within<Real>(x, moves, inbox.bound);
    // `moves` is half the distance to the partner's model. The companion moves by the fraction
    // `pull` of that distance instead.
    add<Real>(companion_, moves, rates_.pull / 0.5);
  }
  void hold(const Peer&, Real bound) override { hold_within<Real>(companion_, bound); }

 private:
  Vector companion_;  ///< The companion; while local steps run, companion minus model.
  CompanionRates rates_;
};

/// True if pairs are drawn along a graph, independently in each round.
bool draws_pairs(const MixRule& rule) {
  const TopologyKind kind = rule.topology.kind;
  return rule.partners == Partners::pairs && is_graph(kind) && kind != TopologyKind::hypercube &&
         kind != TopologyKind::complete;
}

constexpr std::array companion_constraints = {
    MixConstraint{"partners", [](const MixRule& rule) { return !draws_pairs(rule); },
                  "{kind} is about pairs that are drawn along a graph",
                  "write partners = \"pairs\" and a graph as topology = \"ring\""}};

}  // namespace

extern const MixPart companion;
constinit const MixPart companion{.name = "companion",
                                  .traits = {.conserves_mean = true,
                                             .keeps_equal = true,
                                             .needs_rounds_in_step = true,
                                             .vectors = 2},
                                  .constraints = companion_constraints,
                                  .make = maker_of<Companion>};

}  // namespace gv::rules
