// DOWNPOUR: changes go up to rank 0, in a star or through a tree, and models come down.
#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "consensus/mixing/mix_step.hpp"
#include "consensus/mixing/vector_steps.hpp"

namespace gv::rules {
namespace {

/// DOWNPOUR (Dean 2012): the centre adds up all changes, and the others continue from its sum. In a
/// tree, each peer is the centre for the peers below it, and sends up the sum of their changes and
/// its own (Gupta 2016).
template <class Real>
class Downpour : public MixStep<Real> {
 public:
  friend class gv::Fields;
  static constexpr std::size_t field_count = 4;
  using typename MixStep<Real>::Vector, typename MixStep<Real>::KeptVectors;
  using typename MixStep<Real>::Peer;
  using typename MixStep<Real>::Draft, typename MixStep<Real>::Inbox;

  KeptVectors kept() override { return {{"before", &before_}, {"below", &below_}}; }

  void begin_generation(Peer& peer, std::span<const Real>) override {
    const std::vector<std::size_t> all = peer.plan->turn(peer.rank, 0).out;
    asks_ = std::set(all.begin(), all.end());
    asks_.erase(above(peer));
  }

  /// A change that reached no peer goes up with the next one.
  void close_generation(Peer&, std::span<const MixMessage>, bool unsent) override {
    if (unsent) below_ = change_;
  }

  void begin_round(Peer&, std::span<Real> x) override { before_.assign(x.begin(), x.end()); }

  void write(Peer& peer, Draft& draft, std::span<Real> x) override {
    change_.assign(x.begin(), x.end());
    take_away<Real>(change_, before_);
    if (!below_.empty()) add<Real>(change_, below_);
    below_.clear();
    const auto is_finite = [](Real value) { return std::isfinite(value); };
    peer.is_sound = std::ranges::all_of(x, is_finite) && std::ranges::all_of(change_, is_finite);
    if (!peer.is_sound) return;
    if (peer.rank != 0) send(peer, draft, change_, {above(peer)});
    if (!asks_.empty()) send(peer, draft, x, {asks_.begin(), asks_.end()});
    // If peers do not wait for each other, a peer below gets our model only after it has sent a
    // change.
    if (!is_in_step(peer.rule)) asks_.clear();
  }

  void mix(Peer& peer, Inbox& inbox, std::span<Real> x) override {
    const Vector* model = nullptr;
    for (const HeardModel<Real>& other : inbox.others) {
      if (peer.rank != 0 && other.from == above(peer)) {
        model = &other.values;
        continue;
      }
      below_.resize(peer.elements, 0);
      add<Real>(below_, other.values);
      asks_.insert(other.from);
    }
    if (model != nullptr) {
      std::ranges::copy(*model, x.begin());
      // If peers wait for each other, this model was sent before our last change arrived.
      // Otherwise, we cannot know which changes it contains, so we take it as it is: the next model
      // will contain the changes that this one lacks.
      if (is_in_step(peer.rule)) add<Real>(x, change_);
    }
    if (!below_.empty()) add<Real>(x, below_);
  }

  void hold(const Peer&, Real bound) override { hold_within<Real>(below_, 2 * bound); }

 private:
  /// The rank that sends us its model. For rank 0, which has no rank above it, the result is the
  /// number of peers.
  static std::size_t above(const Peer& peer) {
    if (peer.rank == 0) return peer.plan->peers();
    return peer.plan->topology().kind == TopologyKind::tree ? (peer.rank - 1) / 2 : 0;
  }

  static void send(Peer& peer, Draft& draft, std::span<const Real> word,
                   std::vector<std::size_t> to) {
    auto bytes = peer.written(draft.round, to.front(), {&word, 1}, {.weight = peer.weight});
    draft.messages.push_back(
        {.from = peer.rank, .round = draft.round, .bytes = std::move(bytes), .to = std::move(to)});
  }

  Vector before_;  ///< The model before the local steps of a round.
  Vector change_;  ///< The last change that we sent up: the change by local steps plus the changes
                   ///< from the ranks below us.
  /// Changes from the ranks below us that arrived after our last message, plus our changes that
  /// reached no peer. Empty if there are none.
  Vector below_;
  std::set<std::size_t> asks_;  ///< The ranks below us to which we send our model next.
};

constexpr std::array downpour_constraints = {MixConstraint{
    "topology",
    [](const MixRule& rule) {
      return rule.topology.kind != TopologyKind::star && rule.topology.kind != TopologyKind::tree;
    },
    "{kind} needs one that all others send to", "write topology = \"star\" or \"tree\""}};

}  // namespace

extern const MixPart downpour;
constinit const MixPart downpour{
    .name = "downpour",
    .traits = {.adds_up = true, .needs_all_neighbours = true, .vectors = 3},
    .constraints = downpour_constraints,
    .make = maker_of<Downpour>};

}  // namespace gv::rules
