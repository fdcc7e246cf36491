// DOWNPOUR: changes go to rank 0, which sends back the sum.
#include <algorithm>
#include <array>

#include "consensus/mixing/mix_step.hpp"
#include "consensus/mixing/vector_steps.hpp"

namespace gv::rules {
namespace {

/// DOWNPOUR (Dean 2012): the centre adds up all changes, and the others continue from its sum.
template <class Real>
class Downpour : public MixStep<Real> {
 public:
  friend class gv::Fields;
  static constexpr std::size_t field_count = 2;
  using typename MixStep<Real>::Vector, typename MixStep<Real>::KeptVectors;
  using typename MixStep<Real>::Peer;
  using typename MixStep<Real>::Draft, typename MixStep<Real>::Inbox;

  KeptVectors kept() override { return {{"before", &before_}}; }

  void begin_round(Peer&, std::span<Real> x) override { before_.assign(x.begin(), x.end()); }

  void write(Peer& peer, Draft& draft, std::span<Real> x) override {
    change_.assign(x.begin(), x.end());
    if (peer.rank != 0) take_away<Real>(change_, before_);
    draft.words.push_back(change_);
  }

  void mix(Peer& peer, Inbox& inbox, std::span<Real> x) override {
    if (peer.rank == 0) {
      for (const HeardModel<Real>& other : inbox.others) add<Real>(x, other.values);
    } else if (!inbox.others.empty()) {
      // The centre's sum does not include our last change yet.
      std::ranges::copy(inbox.others.back().values, x.begin());
      add<Real>(x, peer.message);
    }
  }

 private:
  Vector before_;  ///< The model before the local steps of a round.
  Vector change_;  ///< What is sent: the change by the local steps, or the whole model at rank 0.
};

constexpr std::array downpour_constraints = {MixConstraint{
    "topology", [](const MixRule& rule) { return rule.topology.kind != TopologyKind::star; },
    "{kind} needs one that all others send to", "write topology = \"star\""}};

}  // namespace

extern const MixPart downpour;
constinit const MixPart downpour{
    .name = "downpour",
    .traits = {.adds_up = true, .needs_all_neighbours = true, .vectors = 2},
    .constraints = downpour_constraints,
    .make = maker_of<Downpour>};

}  // namespace gv::rules
