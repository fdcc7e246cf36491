// RelaySum: sums travel along the edges of a tree.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "consensus/mixing/mix_step.hpp"
#include "consensus/mixing/vector_steps.hpp"

namespace gv::rules {
namespace {

/// RelaySum (Vogels 2021). The latest sums from our neighbours together cover all other peers, so
/// with our own model they give the mean of all models.
template <class Real>
class RelaySum : public MixStep<Real> {
 public:
  friend class gv::Fields;
  static constexpr std::size_t field_count = 1;
  using typename MixStep<Real>::Vector, typename MixStep<Real>::Peer;
  using typename MixStep<Real>::Draft, typename MixStep<Real>::Inbox;

  void begin_generation(Peer&, std::span<const Real>) override { sums_.clear(); }

  /// Sends each neighbour our model plus the sums from all other neighbours.
  void write(Peer& peer, Draft& draft, std::span<Real> x) override {
    peer.is_sound = std::ranges::all_of(x, [](Real value) { return std::isfinite(value); });
    if (!peer.is_sound) return;
    for (const std::size_t to : peer.plan->turn(peer.rank, draft.round).out) {
      Vector sum(x.begin(), x.end());
      std::uint32_t count = 1;
      for (const auto& [from, last] : sums_) {
        if (from == to) continue;
        add<Real>(sum, last.first);
        count += last.second;
      }
      const std::span<const Real> word = sum;
      draft.messages.push_back(
          {.from = peer.rank,
           .round = draft.round,
           .bytes = peer.written(draft.round, to, {&word, 1}, {.count = count}),
           .to = {to}});
    }
  }

  void mix(Peer& peer, Inbox& inbox, std::span<Real> x) override {
    for (HeardModel<Real>& other : inbox.others) {
      sums_[other.from] = {std::move(other.values), other.count};
    }
    Vector sum(peer.elements, 0);
    double count = 0;
    for (const auto& [from, last] : sums_) {
      add<Real>(sum, last.first);
      count += last.second;
    }
    const auto peers = static_cast<Real>(peer.plan->peers());
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] += (sum[i] - static_cast<Real>(count) * x[i]) / peers;
    }
  }

 private:
  /// The latest sum from each neighbour and the number of models in it, by rank.
  std::map<std::size_t, std::pair<Vector, std::uint32_t>> sums_;
};

constexpr std::array relay_sum_constraints = {MixConstraint{
    "topology",
    [](const MixRule& rule) {
      return rule.topology.kind != TopologyKind::tree && rule.topology.kind != TopologyKind::star;
    },
    "sums come round again where there are cycles", "write topology = \"tree\""}};

}  // namespace

extern const MixPart relay_sum;
constinit const MixPart relay_sum{
    .name = "relay_sum",
    .traits = {.needs_all_neighbours = true, .needs_rounds_in_step = true, .vectors = 2},
    .constraints = relay_sum_constraints,
    .make = maker_of<RelaySum>};

}  // namespace gv::rules
