// Invariants of the swarm's budget and of its common end, checked from outside.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "consensus/ledger/ledger.hpp"
#include "peer/modes/swarm_work.hpp"
#include "sim/virtual/invariants.hpp"
#include "sim/virtual/simulator.hpp"

namespace gv {

/// Watches one run, and does nothing if each peer has its own budget. docs/simulator.md lists the
/// invariants; comments in the code name each one where it is checked.
class FinaleInvariants : public Checker {
 public:
  void on_job(const Simulator& world, PeerNumber peer, const Job& job) override;
  void on_job_done(const Simulator& world, PeerNumber peer, const JobDone& done) override;
  void on_effects(const Simulator& world, PeerNumber peer, const NodeEffects& effects) override;
  void on_state(const Simulator& world, PeerNumber peer, PeerState state) override;
  void after(const Simulator& world, PeerNumber peer) override;

  /// Number of peers that have ended with a common mean.
  std::uint64_t ended() const { return ended_; }

 private:
  struct PeerRecord {
    /// Number of the switch to the peer's mode; 0 if it is in its first mode.
    std::uint64_t switches = 0;
    std::uint64_t counted = 0;
    /// The peer's count of samples when it began its job, if peers had agreed on that count.
    std::optional<std::uint64_t> agreed;
    double progress = 0;  ///< The progress that the peer's last job used.
    bool has_mean = false;
    double norm = 0;            ///< Norm of the model that the peer contributes to the common mean.
    bool is_guarded = false;    ///< True if the peer's mean is protected against a hostile peer.
    Time looked{};              ///< When the peer's idleness was last checked.
    Duration idle{};            ///< For how long the peer has found no chunk to train on.
    Duration unhelpful{};       ///< The part of `idle` in which another peer needed help.
    std::optional<Time> paced;  ///< When the peer first knew its own pace.
  };
  /// Step, samples and lineage of a ModelVersion.
  using Version = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;

  std::map<PeerNumber, PeerRecord> peers_;
  std::map<Version, std::uint64_t> fingerprints_;  ///< Fingerprints of the means.
  void check_ledger(const Simulator& world, PeerNumber peer, const Ledger& ledger);
  bool needs_help(const Simulator& world, PeerNumber idle, double chunk_s) const;
  void check_idleness(const Simulator& world, PeerNumber peer, const SwarmWork& work);
  void check_schedule(const Simulator& world, PeerNumber peer, const SwarmWork& work,
                      double progress);
  void check_overshoot(const Simulator& world, PeerNumber peer, const SwarmWork& work,
                       const Job& job);
  void check_first_end(const Simulator& world, PeerNumber peer);
  void check_mean(const Simulator& world, PeerNumber peer);

  std::vector<bool> steps_trained_;  ///< True for each step of leased data that a peer has trained.
  std::uint64_t whole_ = 0;          ///< Chunks below this number are known to be trained.
  /// Number of samples trained on. Repeated samples count each time, but a round counts only once.
  std::uint64_t trained_ = 0;
  std::uint64_t agreed_ = 0;  ///< The largest count on which peers have agreed.
  std::uint64_t ahead_ = 0;   ///< Largest excess of an agreed count over `trained_` so far.
  /// The highest pace that any peer has measured for the whole swarm, in samples/s.
  double fastest_ = 0;
  std::uint64_t ended_ = 0;
  std::set<PeerNumber> have_target_;  ///< Peers that have ever reached the target.
  std::optional<Time> began_;         ///< When the first peer began to train.
  bool is_first_checked_ = false;
  std::optional<Time> used_up_;  ///< When all peers together had used up the budget.
};

}  // namespace gv
