// Invariants of mode `pipeline`, checked from outside: every micro-batch counts once, no update
// before every peer has agreed, no invented stage states, no rollback while all stages live, and
// all samples in every test.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/virtual/invariants.hpp"
#include "sim/virtual/simulator.hpp"

namespace gv {

/// Watches one run, and does nothing in other modes. docs/simulator.md lists the invariants; each
/// is named where it is checked. It knows the correct parameters of stages that only take time,
/// because every run with summed gradients lowers them by one.
class PipelineInvariants : public Checker {
 public:
  void on_effects(const Simulator& world, PeerNumber peer, const NodeEffects& effects) override;
  void on_job(const Simulator& world, PeerNumber peer, const Job& job) override;
  void on_job_done(const Simulator& world, PeerNumber peer, const JobDone& done) override;
  void on_state(const Simulator& world, PeerNumber peer, PeerState state) override;
  void after(const Simulator& world, PeerNumber peer) override;

  /// Runs finished by at least one peer.
  std::uint64_t operations() const { return results_.size(); }
  /// Number of times that a peer returned to an older version.
  std::uint64_t rollbacks() const { return rollbacks_; }
  /// Stage states that were checked.
  std::uint64_t states() const { return states_seen_; }

  /// True if all peers with some stage or its newest copy are gone, so that no peer can continue.
  bool is_stage_lost(const Simulator& world) const;

 private:
  struct PeerRecord {
    bool seen = false;
    ModelVersion version;
    /// Step of `version`, or an older one if no run has been finished here since that one.
    std::uint64_t made_step = 0;
    std::set<std::uint32_t> carried;      ///< The parts that it carries, at `version`.
    std::uint64_t generation = 0;         ///< Key of its generation; 0: none.
    std::set<std::uint64_t> generations;  ///< Its generations in this incarnation.
    std::uint64_t job_generation = 0;     ///< Its generation when its job was issued.
    std::uint64_t made_in = 0;            ///< Generation of its newest run, in this incarnation.
    std::uint64_t slices_of = 0;          ///< Key of its newest generation.
    std::size_t slices = 0;               ///< Slices that this generation gives to peers, summed
                                          ///< over the peers.
  };

  /// A peer and its incarnation.
  using Life = std::pair<PeerNumber, std::uint32_t>;
  /// Generation and run.
  using RunName = std::pair<std::uint64_t, std::uint64_t>;
  /// Stage, and the place of a micro-batch's count in its sum: one for each member of a group.
  using Part = std::pair<std::uint32_t, std::size_t>;
  /// The peer that took a micro-batch of a test through a stage: by stage, micro-batch and place in
  /// a group.
  using Tested = std::map<std::tuple<std::uint32_t, std::uint32_t, std::size_t>, PeerNumber>;

  PeerRecord& record(PeerNumber peer);
  void check_amounts(const Simulator& world, PeerNumber peer, const NodeEffects& effects);
  void note_slices(const Simulator& world, PeerNumber peer);
  void check_test(const Simulator& world, PeerNumber peer, const Job& job,
                  const task::StagePass& pass);
  void check_sums(const Simulator& world, PeerNumber peer, const task::EndRun& run);
  void check_becoming(const Simulator& world, PeerNumber peer, const ModelVersion& version,
                      const StageCopy& load);
  void check_state(const Simulator& world, PeerNumber peer, const ModelVersion& version,
                   std::uint32_t part, std::span<const float> parameters);
  void check_generation(const Simulator& world, PeerNumber peer, const Generation& generation);
  void check_made(const Simulator& world, PeerNumber peer, const ModelVersion& before,
                  const ModelVersion& version, std::uint64_t generation);
  void secure(const Simulator& world, const Generation& generation, std::uint64_t operation);
  void check_claims(const Simulator& world, PeerNumber peer);

  std::vector<PeerRecord> records_;
  std::map<std::uint64_t, Generation> generations_;
  std::map<RunName, std::set<PeerNumber>> said_;  ///< Peers that have reported their part complete.
  std::map<RunName, std::map<Part, int>> went_back_;  ///< Backward passes made.
  std::map<RunName, Tested> tested_;                  ///< Passes of tests before runs.
  std::map<RunName, ModelVersion> results_;
  /// Fingerprints of parameters, by lineage and part.
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::set<std::uint64_t>> states_;
  /// By generation and part: the peers that were sent copies, and the runs after which the copies
  /// were made.
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::map<PeerNumber, std::set<std::uint64_t>>>
      keepers_;
  /// By generation: the peers that have each part since a run of the generation was finished.
  std::map<std::uint64_t, std::vector<std::set<Life>>> secured_;
  std::uint64_t rollbacks_ = 0;
  std::uint64_t states_seen_ = 0;
};

}  // namespace gv
