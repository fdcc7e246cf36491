// Invariants of mode `pipeline`, checked from outside. Every micro-batch counts once, updates wait
// for all peers, stage states are never invented, nothing is rolled back while all stages have
// carriers, and every test uses all samples.
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

/// Watches one run in mode `pipeline`, and does nothing in other modes. docs/simulator.md lists the
/// invariants, and the code names each invariant at its check. If stages only take time, their
/// correct parameters are known, because every run with summed gradients lowers them by one.
class PipelineInvariants : public Checker {
 public:
  void on_effects(const Simulator& world, PeerNumber peer, const NodeEffects& effects) override;
  void on_job(const Simulator& world, PeerNumber peer, const Job& job) override;
  void on_job_done(const Simulator& world, PeerNumber peer, const JobDone& done) override;
  void on_state(const Simulator& world, PeerNumber peer, PeerState state) override;
  void after(const Simulator& world, PeerNumber peer) override;

  /// Number of pipeline runs that at least one peer has finished.
  std::uint64_t operations() const { return results_.size(); }
  /// Number of times that a peer returned to an older version.
  std::uint64_t rollbacks() const { return rollbacks_; }
  /// Number of stage states that were checked.
  std::uint64_t states() const { return states_seen_; }

  /// True if, for some stage, all peers with the stage or its newest copy are gone, so that no peer
  /// can continue.
  bool is_stage_lost(const Simulator& world) const;

 private:
  struct PeerRecord {
    bool seen = false;
    ModelVersion version;
    /// Step of the last version that the peer made or started with. Rollbacks lower this step.
    std::uint64_t made_step = 0;
    std::set<std::uint32_t> carried;      ///< The parts that the peer carries at `version`.
    std::uint64_t generation = 0;         ///< Key of the peer's generation; 0 if it is in none.
    std::set<std::uint64_t> generations;  ///< Keys of the peer's generations in this incarnation.
    /// Key of the generation in which the peer's job was issued.
    std::uint64_t job_generation = 0;
    std::uint64_t made_in = 0;    ///< Key of the generation of the peer's newest finished run.
    std::uint64_t slices_of = 0;  ///< Key of the generation to which `slices` refers.
    std::size_t slices = 0;       ///< Slices in generation `slices_of`, summed over carriers.
  };

  /// A peer, and one of its incarnations.
  using Life = std::pair<PeerNumber, std::uint32_t>;
  /// The key of a generation, and the number of a run in it.
  using RunName = std::pair<std::uint64_t, std::uint64_t>;
  /// A stage, and the index of a count in the stage's sum of counts. Each member of a group has one
  /// count for each micro-batch.
  using Part = std::pair<std::uint32_t, std::size_t>;
  /// The peer that took a micro-batch of a test through a stage, by stage, micro-batch and the
  /// peer's place in a group.
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
  /// Peers that have reported that their part of a run is complete.
  std::map<RunName, std::set<PeerNumber>> said_;
  std::map<RunName, std::map<Part, int>> went_back_;  ///< Number of backward passes of each part.
  std::map<RunName, Tested> tested_;                  ///< Test passes before each run.
  std::map<RunName, ModelVersion> results_;
  /// Fingerprints of parameters, by lineage and part.
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::set<std::uint64_t>> states_;
  /// By generation and part: the peers to which copies were sent, and the runs after which the
  /// copies were made.
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::map<PeerNumber, std::set<std::uint64_t>>>
      keepers_;
  /// By generation and part: the peers that have had the part since the generation's newest
  /// finished run.
  std::map<std::uint64_t, std::vector<std::set<Life>>> secured_;
  std::uint64_t rollbacks_ = 0;
  std::uint64_t states_seen_ = 0;
};

}  // namespace gv
