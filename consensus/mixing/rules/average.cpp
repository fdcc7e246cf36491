// The average with the neighbours: x_i += gamma sum_j w_ij (m_j - m_i).
#include <utility>

#include "consensus/mixing/mix_step.hpp"
#include "consensus/mixing/vector_steps.hpp"

namespace gv::rules {
namespace {

/// D-PSGD (Lian 2017), elastic forces and others. Averages only the round's piece of the model.
template <class Real>
class Average : public MixStep<Real> {
 public:
  static constexpr std::size_t field_count = 0;
  using typename MixStep<Real>::Peer, typename MixStep<Real>::Draft, typename MixStep<Real>::Inbox;

  void write(Peer& peer, Draft& draft, std::span<Real> x) override {
    const auto [begin, size] = piece_of(peer.rule, peer.elements, draft.round);
    draft.words.push_back(x.subspan(begin, size));
  }

  void mix(Peer& peer, Inbox& inbox, std::span<Real> x) override {
    const auto [begin, size] = piece_of(peer.rule, peer.elements, inbox.round);
    inbox.moves = peer.change(inbox.round, inbox.others, 0, size);
    add_within<Real>(x.subspan(begin, size), inbox.moves, inbox.bound);
  }
};

}  // namespace

extern const MixPart average;
constinit const MixPart average{
    .name = "average",
    .traits = {.conserves_mean = true, .keeps_equal = true, .vectors = 1},
    .make = maker_of<Average>};

}  // namespace gv::rules
