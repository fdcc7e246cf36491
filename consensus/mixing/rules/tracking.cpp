// Gradient tracking: a second vector follows the mean gradient and is mixed like the model.
#include "consensus/mixing/mix_step.hpp"
#include "consensus/mixing/vector_steps.hpp"

namespace gv::rules {
namespace {

/// Gradient tracking (Nedic 2017): tracker += gradient - last gradient. Local steps go along the
/// tracker, which is averaged like the model.
template <class Real>
class Tracking : public MixStep<Real> {
 public:
  friend class gv::Fields;
  static constexpr std::size_t field_count = 2;
  using typename MixStep<Real>::Vector, typename MixStep<Real>::KeptVectors;
  using typename MixStep<Real>::Peer;
  using typename MixStep<Real>::Draft, typename MixStep<Real>::Inbox;

  KeptVectors kept() override {
    return {{"tracker", &tracker_}, {"last_gradient", &last_gradient_, true}};
  }

  /// The trackers of peers that left are lost. Starting from our last gradient makes the mean of
  /// all trackers correct again.
  void begin_generation(Peer& peer, std::span<const Real>) override {
    tracker_ = zeros_if_new(last_gradient_, peer.elements);
  }

  void direct(Peer& peer, std::span<Real> gradient) override {
    zeros_if_new(tracker_, peer.elements);
    zeros_if_new(last_gradient_, peer.elements);
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      tracker_[i] += gradient[i] - last_gradient_[i];
      last_gradient_[i] = gradient[i];
      gradient[i] = tracker_[i];
    }
  }

  void write(Peer& peer, Draft& draft, std::span<Real>) override {
    draft.words.push_back(zeros_if_new(tracker_, peer.elements));
  }

  void mix(Peer& peer, Inbox& inbox, std::span<Real>) override {
    Vector moves = peer.change(inbox.round, inbox.others, peer.elements, peer.elements);
    add_within<Real>(tracker_, moves, largest_slope(inbox.bound, peer.learning_rate));
  }

 private:
  Vector tracker_;
  Vector last_gradient_;
};

}  // namespace

extern const MixPart tracking;
constinit const MixPart tracking{.name = "tracking",
                                 .traits = {.directs = true,
                                            .one_by_one = true,
                                            .needs_the_mean = true,
                                            .vectors = 3,
                                            .words = 2},
                                 .make = maker_of<Tracking>};

}  // namespace gv::rules
