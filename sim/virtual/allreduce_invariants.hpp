// Invariants of mode `allreduce`, checked from outside. Generations are unique, a collective has
// one result, equal versions have equal bits, and sums contain every gradient once.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/virtual/invariants.hpp"
#include "sim/virtual/simulator.hpp"

namespace gv {

/// Watches one run, and does nothing in other modes. docs/simulator.md lists the invariants;
/// comments in the code name each one where it is checked.
class AllReduceInvariants : public Checker {
 public:
  void on_effects(const Simulator& world, PeerNumber peer, const NodeEffects& effects) override;
  void on_job(const Simulator& world, PeerNumber peer, const Job& job) override;
  void on_job_done(const Simulator& world, PeerNumber peer, const JobDone& done) override;
  void on_state(const Simulator& world, PeerNumber peer, PeerState state) override;
  void after(const Simulator& world, PeerNumber peer) override;

  /// Number of collectives that at least one peer has finished.
  std::uint64_t operations() const { return results_.size(); }
  std::uint64_t generations() const { return generations_.size(); }
  /// Number of sums that were compared with the mean of their gradients.
  std::uint64_t sums() const { return sums_; }

 private:
  /// A few elements of a long vector, always at the same places.
  using Sample = std::array<float, 8>;

  struct PeerRecord {
    GenerationId answered;  ///< The newest ballot that the peer answered in this incarnation.
    bool seen = false;
    ModelVersion version;
    ModelVersion replaced;         ///< The peer's version before its newest download of a state.
    bool refuses = false;          ///< True if the peer's last job refused the downloaded state.
    std::uint64_t generation = 0;  ///< Key of the peer's generation; 0 if it is in none.
    /// Number of the switch to the peer's mode; 0 if it is in its first mode.
    std::uint64_t switches = 0;
    std::set<std::uint64_t> left;      ///< Keys of the peer's earlier generations.
    ModelVersion job_version;          ///< The version that the peer's current job produces.
    std::shared_ptr<Floats> gradient;  ///< The gradient that the peer is computing.
    /// The peer's newest gradients, each with the lineage of its model.
    std::vector<std::pair<std::uint64_t, Sample>> gradients;
  };

  /// Lineage and generation from which a collective started.
  struct Parent {
    std::uint64_t lineage = 0;
    std::uint64_t generation = 0;
  };

  void check_generation(const Simulator& world, PeerNumber peer, const Generation& generation);
  bool has_ended_with_it(const Generation& generation) const;
  void check_bound(const Simulator& world, PeerNumber peer, const task::ApplyUpdate& update);
  void check_sum(const Simulator& world, PeerNumber peer, std::span<const float> sum);
  static bool is_in_lockstep(const Simulator& world, PeerNumber peer);
  PeerRecord& record(PeerNumber peer);
  void forget(PeerNumber peer);
  static Sample sample(const Simulator& world, std::span<const float> values);

  std::vector<PeerRecord> records_;
  std::map<std::uint64_t, Generation> generations_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, ModelVersion>
      results_;                                    ///< Results by generation and step.
  std::map<std::uint64_t, Parent> parents_;        ///< Keyed by lineage.
  std::map<std::uint64_t, std::uint64_t> models_;  ///< Hash of the parameters, by lineage.
  std::set<std::uint64_t> ended_;                  ///< Lineages with which honest peers have ended.
  std::uint64_t sums_ = 0;
};

}  // namespace gv
