// Error feedback: the part of a message that the codec loses is added to the next one.
#include "consensus/mixing/mix_step.hpp"
#include "consensus/mixing/vector_steps.hpp"

namespace gv::rules {
namespace {

/// DeepSqueeze (Tang 2019): models are averaged, but each message is the model plus the parts that
/// earlier messages lost.
template <class Real>
class ErrorFeedback : public MixStep<Real> {
 public:
  friend class gv::Fields;
  static constexpr std::size_t field_count = 1;
  using typename MixStep<Real>::Vector, typename MixStep<Real>::KeptVectors;
  using typename MixStep<Real>::Peer;
  using typename MixStep<Real>::Draft;

  KeptVectors kept() override { return {{"error", &error_, true}}; }

  void write(Peer& peer, Draft& draft, std::span<Real> x) override {
    add<Real>(zeros_if_new(error_, peer.elements), x);
    draft.words = {error_};
    draft.messages = peer.to_all(draft.round, draft.words, draft.count);
    draft.words.clear();
    take_away<Real>(error_, peer.message);
  }

 private:
  Vector error_;
};

}  // namespace

extern const MixPart error_feedback;
constinit const MixPart error_feedback{
    .name = "error_feedback", .traits = {.vectors = 1}, .make = maker_of<ErrorFeedback>};

}  // namespace gv::rules
