// The hyper-parameters of a virtual population's members, and which peers copied which.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "sim/virtual/simulator.hpp"

namespace gv {

/// A model that a peer trains: its first one, or a copied one.
struct Strain {
  PeerNumber peer = 0;
  std::uint64_t step = 0;  ///< The peer's step when it began to train it.
  /// Index of the strain from which it was copied, an earlier one in the lineage; its own index if
  /// it is a first model.
  std::size_t parent = 0;
};

/// Watches trials and copies.
class PopulationTally : public Watcher {
 public:
  void on_effects(const Simulator& world, PeerNumber peer, const NodeEffects& effects) override;
  void on_job_done(const Simulator& world, PeerNumber peer, const JobDone& done) override;

  /// The newest trial of each peer that was validated.
  const std::map<PeerNumber, Trial>& trials() const { return trials_; }
  /// Strains in the order of their beginnings: a forest, in which every strain's parent began
  /// before it.
  const std::vector<Strain>& lineage() const { return lineage_; }
  std::uint64_t copies(PeerNumber peer) const;
  std::uint64_t copies() const;

 private:
  std::size_t newest_of(PeerNumber peer);

  std::map<PeerNumber, Trial> trials_;
  std::vector<Strain> lineage_;
  std::map<PeerNumber, std::size_t> newest_;  ///< Each peer's current strain.
};

}  // namespace gv
