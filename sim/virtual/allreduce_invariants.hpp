// Invariants of mode `allreduce`, checked from outside: unique generations, one result of a
// collective, equal versions with equal bits, sums that contain every gradient once.
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

/// Watches one run, and does nothing in other modes. docs/simulator.md lists the invariants; each
/// is named where it is checked.
class AllReduceInvariants : public Checker {
 public:
  void on_effects(const Simulator& world, PeerNumber peer, const NodeEffects& effects) override;
  void on_job(const Simulator& world, PeerNumber peer, const Job& job) override;
  void on_job_done(const Simulator& world, PeerNumber peer, const JobDone& done) override;
  void on_state(const Simulator& world, PeerNumber peer, PeerState state) override;
  void after(const Simulator& world, PeerNumber peer) override;

  /// Collectives finished by at least one peer.
  std::uint64_t operations() const { return results_.size(); }
  std::uint64_t generations() const { return generations_.size(); }
  /// Sums that were compared with the mean of their gradients.
  std::uint64_t sums() const { return sums_; }

 private:
  /// A few elements of a long vector, always at the same places.
  using Sample = std::array<float, 8>;

  struct PeerRecord {
    GenerationId answered;  ///< The newest ballot it answered in this incarnation.
    bool seen = false;
    ModelVersion version;
    ModelVersion replaced;             ///< The version that the newest downloaded state replaced.
    bool refuses = false;              ///< Its last job has refused that state.
    std::uint64_t generation = 0;      ///< Key of its generation; 0: none.
    std::uint64_t switches = 0;        ///< The switch by which its mode was made; 0: none.
    std::set<std::uint64_t> left;      ///< Keys of its earlier generations.
    ModelVersion job_version;          ///< The version to which its job leads.
    std::shared_ptr<Floats> gradient;  ///< The gradient it computes.
    std::vector<std::pair<std::uint64_t, Sample>> gradients;  ///< Its newest ones, by lineage.
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
  std::set<std::uint64_t> ended_;                  ///< Lineages with which sound peers have ended.
  std::uint64_t sums_ = 0;
};

}  // namespace gv
