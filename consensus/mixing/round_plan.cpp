// Computes rounds from topologies, or from partners drawn among neighbours.
#include "consensus/mixing/round_plan.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.hpp"
#include "base/rng.hpp"
#include "consensus/topology/graphs.hpp"
#include "consensus/topology/pairs.hpp"

namespace gv {
namespace {

/// Number of rounds in the cache. A round is needed again when a neighbour is ahead or behind.
constexpr std::size_t rounds_kept = 64;

/// The largest number of messages of a sender where no other limit follows from the rule.
constexpr std::size_t waiting_most = 256;

/// Each peer draws one of its neighbours in the topology and mixes with it as `partners` says.
void draw_partners(Mixing& mixing, Partners partners, Rng rng) {
  std::vector<std::vector<std::size_t>> heard(mixing.size());
  for (std::size_t i = 0; i < mixing.size(); ++i) {
    if (mixing[i].empty()) continue;
    const std::size_t drawn = mixing[i][rng.below(mixing[i].size())].from;
    if (partners != Partners::push) heard[i].push_back(drawn);
    if (partners != Partners::pull) heard[drawn].push_back(i);
  }
  for (std::size_t i = 0; i < mixing.size(); ++i) {
    std::ranges::sort(heard[i]);
    heard[i].erase(std::unique(heard[i].begin(), heard[i].end()), heard[i].end());
  }
  for (std::size_t i = 0; i < mixing.size(); ++i) {
    mixing[i].clear();
    for (const std::size_t from : heard[i]) {
      // If both peers of a pair receive each other's model, Metropolis weights keep the mean.
      // Otherwise, a peer gives equal weights to its own model and to all models that it receives.
      const std::size_t most = partners == Partners::both
                                   ? std::max(heard[i].size(), heard[from].size())
                                   : heard[i].size();
      mixing[i].push_back({from, 1 / static_cast<double>(1 + most)});
    }
  }
}

/// Gives every neighbour the weight `alpha`. In a complete graph, which may replace the topology
/// for which alpha was chosen, the weight is at most 1/n, as in the mean of all n models.
void weigh_alike(Mixing& mixing, const MixRule& rule) {
  double weight = rule.alpha;
  if (rule.partners == Partners::neighbours && rule.topology.kind == TopologyKind::complete) {
    weight = std::min(weight, 1 / static_cast<double>(mixing.size()));
  }
  for (std::vector<Share>& row : mixing) {
    for (Share& share : row) share.weight = weight;
  }
}

}  // namespace

RoundPlan::RoundPlan(const MixRule& rule, std::size_t peers, std::uint64_t seed,
                     std::vector<std::size_t> hosts)
    : rule_(rule), peers_(peers), seed_(seed), hosts_(std::move(hosts)) {
  check(peers > 0, "a round has at least one peer");
  rule_.topology = fitting(rule.topology, peers);
  if (rule.partners == Partners::pairs) pairs_.emplace(rule_.topology, peers, seed);
  alike_ = rule_.partners == Partners::neighbours && period_of(rule_.topology, peers_) == 1;
}

Mixing RoundPlan::computed(std::uint64_t round) const {
  Mixing mixing;
  if (pairs_) {
    mixing.resize(peers_);
    for (const RankPair& pair : pairs_->round(round)) {
      mixing[pair.initiator].push_back({pair.responder, 0.5});
      mixing[pair.responder].push_back({pair.initiator, 0.5});
    }
  } else {
    Topology eager = rule_.topology;
    eager.lazy = false;
    mixing = mixing_of(eager, peers_, seed_, round, hosts_);
    if (rule_.partners != Partners::neighbours) {
      draw_partners(mixing, rule_.partners, Rng(seed_).fork("partners").fork(round));
    }
  }
  if (rule_.alpha > 0) weigh_alike(mixing, rule_);
  if (rule_.topology.lazy) {
    for (std::vector<Share>& row : mixing) {
      for (Share& share : row) share.weight /= 2;
    }
  }
  return mixing;
}

const Mixing& RoundPlan::round(std::uint64_t round) const {
  const std::uint64_t name = alike_ ? 0 : round;
  const auto known = recent_.find(name);
  if (known != recent_.end()) return known->second;
  if (recent_.size() >= rounds_kept) recent_.erase(recent_.begin());
  return recent_.emplace(name, computed(name)).first->second;
}

RoundTurn RoundPlan::turn(std::size_t rank, std::uint64_t round) const {
  const Mixing& mixing = this->round(round);
  RoundTurn turn{.in = mixing[rank], .out = {}};
  std::ranges::sort(turn.in, {}, &Share::from);
  for (std::size_t i = 0; i < mixing.size(); ++i) {
    if (std::ranges::any_of(mixing[i], [&](const Share& s) { return s.from == rank; })) {
      turn.out.push_back(i);
    }
  }
  return turn;
}

std::size_t RoundPlan::waiting_max() const {
  const auto stale = static_cast<std::size_t>(rule_.staleness) + 1;
  if (rule_.partners == Partners::pull || rule_.partners == Partners::push) {
    return std::max(waiting_most, 2 * stale);
  }
  const bool is_mutual = rule_.partners != Partners::neighbours;
  if (is_mutual || is_symmetric(rule_.topology, peers_)) return 2 * stale;
  const std::size_t period = period_of(rule_.topology, peers_);
  const std::size_t rounds = std::bit_width(peers_ - 1) * (period + stale - 1) + stale;
  return rounds / period + 1;
}

}  // namespace gv
