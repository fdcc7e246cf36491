// Invariants of runs in any mode, checked from outside with knowledge of the whole swarm.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/virtual/simulator.hpp"

namespace gv {

/// The first invariant that was violated.
struct Violation {
  std::string invariant;  ///< Short and stable: "mean preserved", "applied once", ...
  std::string what;       ///< A sentence that names the peer and what happened to it.
  Time at{};
  /// True for a liveness violation: nothing wrong happened, but progress is missing.
  bool liveness = false;
};

/// Watches one run until an invariant is violated.
class Checker : public Watcher {
 public:
  const std::optional<Violation>& violation() const { return violation_; }

 protected:
  /// Records a violation, unless there was one before.
  void fail(const Simulator& world, std::string invariant, std::string what) {
    if (!violation_) violation_ = {std::move(invariant), std::move(what), world.now(), false};
  }

 private:
  std::optional<Violation> violation_;
};

/// How much longer it may take to find all silent peers than to find one. A lone survivor probes
/// them slowly and one by one. To this peer, the silence of all others looks like a fault of its
/// own, which worsens its local health.
Duration time_for_other_silent_peers(const Simulator& world);

/// Watches one run. After every event, checks all members that the acting peer knows.
/// docs/simulator.md lists the invariants; comments in the code name each one where it is checked.
class Invariants : public Checker {
 public:
  void on_input(const Simulator& world, const Input& input) override;
  void on_effects(const Simulator& world, PeerNumber peer, const NodeEffects& effects) override;
  void on_job(const Simulator& world, PeerNumber peer, const Job& job) override;
  void on_job_done(const Simulator& world, PeerNumber peer, const JobDone& done) override;
  void on_fault_event(const Simulator& world, const FaultEvent& fault_event) override;
  void on_state(const Simulator& world, PeerNumber peer, PeerState state) override;
  void on_save(const Simulator& world, PeerNumber peer, std::uint64_t step, bool whole) override;
  void on_restore(const Simulator& world, PeerNumber peer, const Image* image) override;
  void after(const Simulator& world, PeerNumber peer) override;

  /// Call at the end, after exchanges have had time to settle.
  void check_settled(const Simulator& world);

  /// Number of exchanges in which the changes of the two sides cancelled exactly.
  std::uint64_t exchanges_matched() const { return matched_; }
  /// Number of exchanges that only one side applied. A fault excuses each of them.
  std::uint64_t halves() const { return halves_excused_; }

 private:
  struct Half {
    PeerNumber peer = 0;
    PeerNumber partner = 0;
    Time at{};       ///< When this side applied the exchange, maybe minutes after the decision.
    Time decided{};  ///< When the initiator decided, before either side applied anything.
    Force force;
  };
  struct ModelVersion {
    std::uint64_t incarnation = 0;
    int rank = 0;
  };
  struct PeerRecord {
    std::map<PeerNumber, ModelVersion> versions;
    std::optional<Time> adopted_at;  ///< When the peer replaced its model with a downloaded one.
    /// The last time that the peer was killed, stopped or slowed, or that its clock changed.
    std::optional<Time> disturbed_at;
    std::uint64_t view_hash = 0;         ///< Hash of the peer's view at the last check.
    std::map<PeerNumber, Time> entered;  ///< When each member entered the peer's view.
    std::optional<Time> undecided_at;
    std::optional<Time> done_at;                  ///< End of the peer's newest job.
    std::optional<std::uint64_t> committed_step;  ///< Step of the newest checkpoint on the disk.
    std::optional<std::uint64_t> writing_step;  ///< Step of a checkpoint that a crash interrupted.
    ConservationChecksum checksum_wanted{};
    std::uint64_t step_wanted = 0;
    /// Number of forces that the peer has applied in its current incarnation.
    std::uint64_t forces = 0;
  };

  PeerRecord& record(PeerNumber peer);
  void check_force(const Simulator& world, PeerNumber peer, const Force& force);
  void check_adopted(const Simulator& world, PeerNumber peer, const DownloadedModel& model);
  void check_bounds(const Simulator& world, PeerNumber peer);
  void check_members(const Simulator& world, PeerNumber peer);
  void check_ghosts(const Simulator& world, PeerNumber peer);
  bool excuses_death(const Simulator& world, PeerNumber observer, PeerNumber target) const;
  void check_revision(const Simulator& world, PeerNumber peer, const Node& node);
  void check_decisions(const Simulator& world, PeerNumber peer);

  bool ticked_ = false;       ///< True if the current input is a tick.
  bool transferred_ = false;  ///< True if the current input led to a transfer.
  std::vector<PeerRecord> records_;
  std::map<std::uint64_t, SettingsRevision> revisions_;  ///< Keyed by the key of the generation.
  /// Each generation as its first peer knows it, by the generation's key.
  std::map<std::uint64_t, Generation> generations_;
  std::map<PeerNumber, Time> equivocated_;  ///< When each proposer was first seen to equivocate.
  std::map<PeerNumber, Time> gone_;         ///< When each missing peer went down or ended.
  std::map<TransferId, Time> decided_;      ///< When each exchange was first committed.
  std::map<TransferId, Half> halves_;
  std::set<std::pair<TransferId, PeerNumber>> applied_;
  std::set<std::size_t> link_faults_;       ///< Link faults in effect.
  std::optional<Time> links_disturbed_at_;  ///< Last time that a link fault was in effect.
  std::uint64_t matched_ = 0;
  std::uint64_t halves_excused_ = 0;
};

}  // namespace gv
