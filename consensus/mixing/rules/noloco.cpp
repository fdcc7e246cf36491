// NoLoCo: momentum on the mean change of a group, and a pull together.
#include <array>
#include <utility>

#include "consensus/mixing/mix_step.hpp"
#include "consensus/mixing/vector_steps.hpp"

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
    for (std::size_t i = 0; i < n; ++i) {
      outer_[i] = static_cast<Real>(peer.rule.momentum) * outer_[i] +
                  static_cast<Real>(peer.rule.outer_learning_rate) * mean[i] +
                  static_cast<Real>(peer.rule.gamma) * together[i];
      x[i] = slow_[i] += outer_[i];
    }
  }

 private:
  Vector slow_;   ///< The model that the outer step moves.
  Vector outer_;  ///< The momentum of the outer step.
  /// The change of the model since the last round, kept while a message is written.
  Vector change_;
};

constexpr std::array noloco_constraints = {
    MixConstraint{"gamma",
                  [](const MixRule& rule) {
                    const double a = rule.momentum;
                    return a > 0.5 && rule.gamma > (a >= 0.9 ? 0.38 : 1.5 - (a - 0.5) * 2.8);
                  },
                  "with momentum {momentum} models run apart, however small the learning rate",
                  "write momentum = 0.5, which is stable up to gamma = 1.5"}};

}  // namespace

// conserves_mean: only steps change the mean of the slow models.
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
