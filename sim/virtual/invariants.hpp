// What must hold in every run, checked from outside with what no peer can know.
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

/// The first thing that went wrong.
struct Violation {
  std::string invariant;  ///< Short and stable: "mean preserved", "applied once", ...
  std::string what;       ///< Who and what, for people.
  Time at{};
  bool liveness = false;  ///< Something good did not happen, rather than something bad did.
};

/// Watches one run. docs/simulator.md lists the invariants; each is named where it is checked.
/// Cost: one look at every member of the peer that acted, after every event.
class Invariants : public Watcher {
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

  /// To be called at the end, when exchanges have had time to settle.
  void check_settled(const Simulator& world);

  const std::optional<Violation>& violation() const { return violation_; }

  /// Exchanges both sides of which were seen to cancel exactly.
  std::uint64_t exchanges_matched() const { return matched_; }
  /// Exchanges of which one side alone was applied, all of them excused by a fault.
  std::uint64_t halves() const { return halves_excused_; }

 private:
  struct Half {
    PeerNumber peer = 0;
    PeerNumber partner = 0;
    Time at{};       ///< Applied, which may be minutes after it was decided.
    Time decided{};  ///< By the initiator, before either side applied anything.
    Force force;
  };
  struct ModelVersion {
    std::uint64_t incarnation = 0;
    int rank = 0;
  };
  struct PeerRecord {
    std::map<PeerNumber, ModelVersion> versions;
    std::optional<Time> adopted_at;    ///< Gave its model up for a fetched one.
    std::optional<Time> disturbed_at;  ///< Last killed, stopped, slowed, or its clock changed.
    std::uint64_t view_hash = 0;       ///< Of the view that was last looked at.
    std::optional<Time> undecided_at;
    std::optional<Time> done_at;                  ///< Its newest job.
    std::optional<std::uint64_t> committed_step;  ///< Newest checkpoint on the disk.
    std::optional<std::uint64_t> writing_step;    ///< Of a checkpoint that a crash interrupted.
    ConservationChecksum checksum_wanted{};
    std::uint64_t step_wanted = 0;
    std::uint64_t forces = 0;  ///< Applied in its present life.
  };

  void fail(const Simulator& world, std::string invariant, std::string what);
  PeerRecord& record(PeerNumber peer);
  void check_force(const Simulator& world, PeerNumber peer, const Force& force);
  void check_bounds(const Simulator& world, PeerNumber peer);
  void check_members(const Simulator& world, PeerNumber peer);
  void check_ghosts(const Simulator& world, PeerNumber peer);
  bool excuses_death(const Simulator& world, PeerNumber observer, PeerNumber target) const;
  void check_revision(const Simulator& world, PeerNumber peer, const Node& node);

  std::optional<Violation> violation_;
  bool ticked_ = false;       ///< The input under way is a tick.
  bool transferred_ = false;  ///< It led to a transfer.
  std::vector<PeerRecord> records_;
  std::map<std::uint64_t, SettingsRevision> revisions_;  ///< By the key of the generation.
  std::map<PeerNumber, Time> gone_;                      ///< Down or ended, since when.
  std::map<TransferId, Time> decided_;  ///< When the word of an exchange was first given.
  std::map<TransferId, Half> halves_;
  std::set<std::pair<TransferId, PeerNumber>> applied_;
  std::set<std::size_t> link_faults_;       ///< Under way.
  std::optional<Time> links_disturbed_at_;  ///< A fault of links was under way then.
  std::uint64_t matched_ = 0;
  std::uint64_t halves_excused_ = 0;
};

}  // namespace gv
