// Invariants of leased data, checked from outside: true reports, true figures, no needless work.
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

/// True if links neither lose, damage nor reorder anything, and are so quick that no peer is taken
/// for dead because of them.
bool has_sound_links(const Simulator& world);
/// True if every peer may meet every other one. Otherwise no peer need know of all work.
bool may_all_meet(const Simulator& world);

/// Watches one run, and does nothing if no peer takes chunks. docs/simulator.md lists the
/// invariants; each is named where it is checked.
class LedgerInvariants : public Checker {
 public:
  void on_effects(const Simulator& world, PeerNumber peer, const NodeEffects& effects) override;
  void on_job_done(const Simulator& world, PeerNumber peer, const JobDone& done) override;
  void on_state(const Simulator& world, PeerNumber peer, PeerState state) override;
  void after(const Simulator& world, PeerNumber peer) override;

 private:
  /// One process of a peer.
  struct Life {
    std::uint64_t chunk = 0;    ///< The chunk of its newest job.
    std::uint64_t made = 0;     ///< Steps of that chunk, from its first one on.
    std::uint64_t trained = 0;  ///< Chunks that it has trained from the first step to the last.
    /// All members of its view knew the chunks below `known` to be done at `known_at`, and those
    /// below `long_known` much earlier.
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
  std::map<PeerNumber, ChunkSet> trained_by_;  ///< Chunks that each peer has trained in all lives.
  std::map<PeerNumber, ChunkSet> told_by_;     ///< Chunks that each peer has reported as done.
  ChunkSet trained_;                           ///< Chunks that a peer has trained.
  std::uint64_t again_ = 0;                    ///< Trainings of chunks that were trained already.
};

}  // namespace gv
