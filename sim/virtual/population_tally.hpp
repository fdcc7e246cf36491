// The hyperparameters of a virtual population's members, and which member copied which.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "sim/virtual/simulator.hpp"

namespace gv {

/// A model that a peer trains: its first model, or a copied one.
struct Strain {
  PeerNumber peer = 0;
  std::uint64_t step = 0;  ///< The peer's step when it began to train this model.
  /// Index in lineage() of the earlier strain from which this one was copied. A first model has its
  /// own index here.
  std::size_t parent = 0;
};

/// Watches the trials and copies of a run.
class PopulationTally : public Watcher {
 public:
  void on_effects(const Simulator& world, PeerNumber peer, const NodeEffects& effects) override;
  void on_job_done(const Simulator& world, PeerNumber peer, const JobDone& done) override;

  /// The newest validated trial of each peer.
  const std::map<PeerNumber, Trial>& trials() const { return trials_; }
  /// All strains in the order in which they began. They form a forest in which parents precede
  /// children.
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
