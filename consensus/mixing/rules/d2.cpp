// D2: each round repeats the changes that mixing made before.
#include <array>

#include "consensus/mixing/mix_step.hpp"
#include "consensus/mixing/vector_steps.hpp"

namespace gv::rules {
namespace {

/// D2 (Tang 2018), exact diffusion: after the local steps, the model moves by the sum of all
/// changes that mixing has made to it so far.
template <class Real>
class D2 : public MixStep<Real> {
 public:
  friend class gv::Fields;
  static constexpr std::size_t field_count = 1;
  using typename MixStep<Real>::Vector, typename MixStep<Real>::KeptVectors;
  using typename MixStep<Real>::Peer;
  using typename MixStep<Real>::Inbox;

  KeptVectors kept() override { return {{"correction", &correction_}}; }

  void begin_generation(Peer& peer, std::span<const Real>) override {
    correction_.assign(peer.elements, 0);
  }
  void end_steps(Peer&, std::span<Real> x) override { add<Real>(x, correction_); }
  void mix(Peer&, Inbox& inbox, std::span<Real>) override { add<Real>(correction_, inbox.moves); }
  void hold(const Peer&, Real bound) override { hold_within<Real>(correction_, bound); }

 private:
  Vector correction_;  ///< The sum of all changes that mixing made.
};

constexpr std::array d2_constraints = {
    MixConstraint{"lazy", [](const MixRule& rule) { return !rule.topology.lazy; },
                  "\"d2\" runs apart where an eigenvalue of the weights is below -1/3",
                  "write lazy = true"},
    MixConstraint{"gamma", [](const MixRule& rule) { return rule.gamma > 1; },
                  "above 1 an eigenvalue of the weights may be below -1/3, and \"d2\" runs apart",
                  "write gamma = 1 or less"}};

}  // namespace

// needs_same_weights: each round repeats the changes of earlier rounds, which accumulate while
// other peers mix. For example, models diverge with pairs along a tree or a star, with base_k and
// 64 peers, and with two hosts that mix with each other only every 8 rounds.
extern const MixPart d2;
constinit const MixPart d2{
    .name = "d2",
    .traits = {.needs_the_mean = true, .needs_same_weights = true, .vectors = 1},
    .constraints = d2_constraints,
    .make = maker_of<D2>};

}  // namespace gv::rules
