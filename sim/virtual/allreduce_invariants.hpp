// What must hold of peers in lockstep, checked from outside: one generation of a name, one result
// of an operation, equal versions equal bits, sums that hold everybody's gradient once.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
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

/// Watches one run; sees nothing in a run of another mode. docs/simulator.md lists the invariants;
/// each is named where it is checked.
class AllReduceInvariants : public Watcher {
 public:
  void on_effects(const Simulator& world, PeerNumber peer, const NodeEffects& effects) override;
  void on_job(const Simulator& world, PeerNumber peer, const Job& job) override;
  void on_job_done(const Simulator& world, PeerNumber peer, const JobDone& done) override;
  void on_state(const Simulator& world, PeerNumber peer, PeerState state) override;
  void after(const Simulator& world, PeerNumber peer) override;

  const std::optional<Violation>& violation() const { return violation_; }

  /// Operations that somebody finished; each counts once, however many finished it.
  std::uint64_t operations() const { return results_.size(); }
  std::uint64_t generations() const { return generations_.size(); }
  /// Sums that were compared with the mean of the gradients that belong in it.
  std::uint64_t sums() const { return sums_; }

 private:
  /// Some elements of a long vector, the same of each.
  using Sample = std::array<float, 8>;

  struct PeerRecord {
    GenerationId answered;  ///< The newest ballot it answered in this life.
    bool seen = false;
    ModelVersion version;
    std::uint64_t generation = 0;                            ///< Key of the one it is in; 0: none.
    std::set<std::uint64_t> left;                            ///< Those it was in before.
    ModelVersion job_version;                                ///< When its job was asked for.
    std::shared_ptr<Floats> gradient;                        ///< Being computed.
    std::deque<std::pair<std::uint64_t, Sample>> gradients;  ///< Its newest, by history.
  };

  /// What an operation went on from, and in which generation.
  struct Parent {
    std::uint64_t lineage = 0;
    std::uint64_t generation = 0;
  };

  void fail(const Simulator& world, std::string invariant, std::string what);
  void check_generation(const Simulator& world, PeerNumber peer, const Generation& generation);
  void check_sum(const Simulator& world, PeerNumber peer, std::span<const float> sum);
  PeerRecord& record(PeerNumber peer);
  static Sample sample(const Simulator& world, std::span<const float> values);

  std::optional<Violation> violation_;
  std::vector<PeerRecord> records_;
  std::map<std::uint64_t, Generation> generations_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, ModelVersion>
      results_;                                    ///< By generation, operation.
  std::map<std::uint64_t, Parent> parents_;        ///< By history.
  std::map<std::uint64_t, std::uint64_t> models_;  ///< Hash of the parameters, by history.
  std::uint64_t sums_ = 0;
};

}  // namespace gv
