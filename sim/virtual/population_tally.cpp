// Records the peers' trials, and strains in order of time.
#include "sim/virtual/population_tally.hpp"

#include <algorithm>

namespace gv {

std::size_t PopulationTally::newest_of(PeerNumber peer) {
  const auto [known, fresh] = newest_.try_emplace(peer, lineage_.size());
  if (fresh) lineage_.push_back({.peer = peer, .parent = known->second});
  return known->second;
}

void PopulationTally::on_effects(const Simulator&, PeerNumber peer, const NodeEffects& effects) {
  for (const Fact& fact : effects.facts) {
    const auto* exploited = std::get_if<Exploited>(&fact);
    if (exploited == nullptr) continue;
    const std::size_t parent = newest_of(number_of(exploited->peer));
    newest_of(peer);
    newest_[peer] = lineage_.size();
    lineage_.push_back({.peer = peer, .step = exploited->step, .parent = parent});
  }
}

void PopulationTally::on_job_done(const Simulator&, PeerNumber peer, const JobDone& done) {
  const auto* trial = first_of<result::Validation>(done.results);
  if (trial == nullptr) return;
  newest_of(peer);
  trials_[peer] = {.learning_rate = static_cast<float>(trial->hyperparameters.learning_rate),
                   .momentum = static_cast<float>(trial->hyperparameters.momentum),
                   .validation_loss = static_cast<float>(trial->loss)};
}

std::uint64_t PopulationTally::copies(PeerNumber peer) const {
  const auto strains =
      std::ranges::count_if(lineage_, [&](const Strain& strain) { return strain.peer == peer; });
  return static_cast<std::uint64_t>(std::max<std::ptrdiff_t>(strains, 1) - 1);
}

std::uint64_t PopulationTally::copies() const { return lineage_.size() - newest_.size(); }

}  // namespace gv
