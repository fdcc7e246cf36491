// Push-sum: each peer sends equal parts of its numerator and weight, and adds the arriving parts.
#include <algorithm>
#include <span>

#include "consensus/mixing/mix_step.hpp"
#include "consensus/mixing/vector_steps.hpp"

namespace gv::rules {
namespace {

/// A peer that does not wait sends only while its weight is at least this fraction of its share. A
/// peer with bounded staleness always sends, but keeps about this fraction.
constexpr double least_weight = 1.0 / 8;
/// The smallest fraction of its weight that a peer sends to its neighbours if it has little left.
/// Much smaller parts would be lost to rounding when added to a numerator in single precision.
constexpr double tiny_fraction = 0x1p-14;

/// SGP (Assran 2019), or overlap SGP if staleness is allowed. The model is numerator / weight.
/// Local steps change the numerator by our share times the change of the model.
template <class Real>
class PushSum : public MixStep<Real> {
 public:
  friend class gv::Fields;
  static constexpr std::size_t field_count = 1;
  using typename MixStep<Real>::Vector, typename MixStep<Real>::KeptVectors;
  using typename MixStep<Real>::Peer;
  using typename MixStep<Real>::Draft, typename MixStep<Real>::Inbox;

  KeptVectors kept() override { return {{"numerator", &numerator_}}; }

  void begin_generation(Peer& peer, std::span<const Real> x) override {
    peer.weight = peer.share;
    numerator_.assign(peer.elements, 0);
    add<Real>(numerator_, x, peer.share);
  }

  void begin_round(Peer& peer, std::span<Real> x) override {
    add<Real>(numerator_, x, -peer.share);
  }

  void end_steps(Peer& peer, std::span<Real> x) override { add<Real>(numerator_, x, peer.share); }

  /// Sends our parts, except when peers do not wait and we have little weight left. A fast peer
  /// would otherwise give away nearly all of its weight before the next message arrives. Its local
  /// steps and rounding errors, which are divided by its weight, would then grow without bound.
  /// With bounded staleness, neighbours wait for each message, so we send a small part instead of
  /// none.
  void write(Peer& peer, Draft& draft, std::span<Real>) override {
    const double least = least_weight * peer.share;
    if (!is_in_step(peer.rule) && peer.weight < least) return;
    const std::size_t parts = peer.plan->turn(peer.rank, draft.round).out.size() + 1;
    const bool may_run_ahead = is_in_step(peer.rule) && peer.rule.staleness > 0;
    if (may_run_ahead && parts > 1 && peer.weight < least * static_cast<double>(parts)) {
      return write_less(peer, draft, least);
    }
    for (Real& value : numerator_) value /= static_cast<Real>(parts);
    peer.weight /= static_cast<double>(parts);
    draft.words.push_back(numerator_);
  }

  void mix(Peer& peer, Inbox& inbox, std::span<Real> x) override {
    for (const HeardModel<Real>& other : inbox.others) {
      add<Real>(numerator_, other.values);
      peer.weight += other.weight;
    }
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = numerator_[i] / static_cast<Real>(peer.weight);
    }
  }

  void hold(const Peer& peer, Real bound) override {
    hold_within<Real>(numerator_, static_cast<Real>(peer.weight) * bound);
  }

 private:
  /// Sends equal parts of the weight above `least`, but at least a tiny part.
  void write_less(Peer& peer, Draft& draft, double least) {
    const auto out = static_cast<double>(peer.plan->turn(peer.rank, draft.round).out.size());
    const double weight = peer.weight;
    const double fraction = std::max(1 - least / weight, tiny_fraction) / out;
    Vector part(numerator_.size(), 0);
    add<Real>(part, numerator_, fraction);
    const std::span<const Real> word = part;
    peer.weight = fraction * weight;
    draft.messages = peer.to_all(draft.round, {&word, 1}, draft.count);
    add<Real>(numerator_, part, -out);
    peer.weight = weight - out * peer.weight;
  }

  /// Our weight times the model. While local steps run, it is smaller by share * model.
  Vector numerator_;
};

}  // namespace

// The mean of the numerators is constant. The mean of the models is also constant once all weights
// are equal.
extern const MixPart push_sum;
constinit const MixPart push_sum{.name = "push_sum",
                                 .traits = {.adds_up = true, .weighs_peers = true, .vectors = 2},
                                 .make = maker_of<PushSum>};

}  // namespace gv::rules
