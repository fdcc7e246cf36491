// Invariants of leased data, checked from outside: true reports, true counts, no needless work.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "consensus/ledger/chunk_set.hpp"
#include "consensus/ledger/ledger.hpp"
#include "sim/virtual/invariants.hpp"
#include "sim/virtual/simulator.hpp"

namespace gv {

/// True if links neither lose, damage nor reorder anything, and are fast enough that no peer is
/// taken for dead because of them.
bool has_sound_links(const Simulator& world);
/// True if all peers may meet each other. Otherwise peers need not learn of all work.
bool may_all_meet(const Simulator& world);

/// Watches one run, and does nothing if no peer takes chunks. docs/simulator.md lists the
/// invariants; comments in the code name each one where it is checked.
class LedgerInvariants : public Checker {
 public:
  void on_effects(const Simulator& world, PeerNumber peer, const NodeEffects& effects) override;
  void on_job_done(const Simulator& world, PeerNumber peer, const JobDone& done) override;
  void on_state(const Simulator& world, PeerNumber peer, PeerState state) override;
  void after(const Simulator& world, PeerNumber peer) override;

 private:
  /// The checker's record of one process of a peer.
  struct Life {
    std::uint64_t trained = 0;  ///< Number of chunks of which the process has made the last step.
    /// At `known_at`, all members of the peer's view knew that the chunks below `known` were done.
    /// They had known the same of the chunks below `long_known` for a long time.
    std::uint64_t known = 0;
    std::optional<Time> known_at;
    std::uint64_t long_known = 0;
  };

  void check_job(const Simulator& world, PeerNumber peer, const Job& job);
  void check_entry(const Simulator& world, PeerNumber peer, const LedgerEntry& entry);
  void check_news(const Simulator& world, PeerNumber peer, std::uint64_t chunk);
  void note_chunk(const Simulator& world, PeerNumber peer, const Ledger& ledger,
                  std::uint64_t chunk);

  std::map<PeerNumber, Life> lives_;
  /// Steps on leased data that each peer has made, over all its incarnations. A step's number
  /// counts from the first step of chunk 0.
  std::map<PeerNumber, ChunkSet> steps_by_;
  /// Chunks that each peer has trained, over all its incarnations.
  std::map<PeerNumber, ChunkSet> trained_by_;
  std::map<PeerNumber, ChunkSet> told_by_;  ///< Chunks that each peer has reported as done.
  ChunkSet trained_;                        ///< Chunks that at least one peer has trained.
  std::uint64_t again_ = 0;                 ///< How often a chunk was trained again.
};

}  // namespace gv
