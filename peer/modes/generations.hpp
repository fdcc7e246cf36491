// One peer's side of generations: joining one, what ends it, and what follows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "consensus/generation/agreement.hpp"
#include "peer/modes/course.hpp"
#include "peer/modes/mode_report.hpp"
#include "peer/modes/rebalance_policy.hpp"
#include "peer/modes/recovery_log.hpp"
#include "peer/modes/state_transfer.hpp"
#include "peer/modes/straggler_detector.hpp"
#include "peer/node/job.hpp"

namespace gv {

/// The reason for refusing a peer that sent values which are not finite, or far too large for a
/// sum.
inline constexpr const char* not_finite = "it sent values that are not finite or far too large";

/// The live peers with our layout, ourselves included, sorted.
std::vector<PeerId> alike_peers(PeerId self, std::uint64_t layout_hash, const Membership& members);

/// A peer's side of generations. A ballot says which peers take part and where they go on from; a
/// lost peer ends the generation for all, and another ballot follows. A mode owns one. The mode
/// knows what an operation is (a collective, a round or a pipeline run) and what it needs before it
/// can begin one. When a call here says that a generation is left, the mode gives up what it has
/// under way in it. Pure.
class Generations {
 public:
  /// `session` tells this process from earlier ones of the same peer.
  /// `signer` has the key of `self` and must outlive this object.
  Generations(PeerId self, std::uint64_t session, const Agreement::Options& options,
              const Signer& signer)
      : self_(self),
        agreement_(self, session, options, signer),
        stragglers_(self),
        rebalance_(self) {}

  const Agreement& agreement() const { return agreement_; }
  Agreement& agreement() { return agreement_; }
  /// The generation that peers are in by agreement; null between generations.
  const Generation* current() const { return agreement_.generation(); }
  /// Key of the generation that the mode is in; 0: none.
  std::uint64_t key() const { return key_; }
  bool is_in_one() const { return key_ != 0; }
  std::uint64_t step() const { return agreement_.version().step; }

  // ---- What a mode asks in a tick, in this order ----

  /// Takes live peers with our layout as candidates. True if they have changed.
  bool set_candidates(Time now, std::uint64_t layout_hash, const Membership& members);
  /// The candidates, without excluded peers.
  const std::vector<PeerId>& candidates() const { return agreement_.candidates(); }
  /// Calls the first ballot once enough peers are there.
  void join(Time now, const Course& course, Effects& out);
  /// True if we take part in ballots and operations.
  bool takes_part(const Course& course) const { return joined_ && !course.is_leaving(); }
  bool has_joined() const { return joined_; }
  /// True if the generation should end for a better one once the operation under way is over.
  /// `is_planned`: generations are planned from measured speeds, so a later one may be better.
  bool is_rebalance_due(Time now, Phase phase, bool is_planned, Effects& out);
  bool is_rebalance_due() const { return rebalance_due_; }
  /// The generation that runs, if any, should end for another one in any case.
  void renew() { rebalance_due_ = true; }
  /// Peers for which an operation waits in vain; nullopt if all is well, empty if only data were
  /// lost. `waiting`: we have given our part and wait for other peers; `progress` changes whenever
  /// something arrives.
  std::optional<std::vector<PeerId>> find_lost(Time now, bool waiting, std::uint64_t progress,
                                               Effects& out);
  void agree(Time now, const GenerationPlanner& planner, Effects& out) {
    agreement_.tick(now, planner, out);
  }
  /// True if the mode has to give up its generation, and the one that it enters (null: none).
  struct Change {
    bool left = false;
    const Generation* entered = nullptr;
  };
  Change follow(Time now, const Course& course);
  /// Moves the course on: to training once the mode is `ready`, and to its end.
  void move_on(Time now, bool ready, const Mode& mode, Course& course, Membership& members,
               Effects& out);
  /// When the next tick is due. `own` is the deadline of the mode's other parts.
  Time deadline(const Course& course, bool waiting, Time own) const;

  // ---- Other inputs ----

  enum class Heard {
    other,      ///< Not a message about generations.
    handled,    ///< Nothing else to do.
    disturbed,  ///< The sender is in another generation: this one has to end.
  };
  /// `busy`: other peers wait for what we compute or fetch. `votes`: we answer ballots.
  Heard receive(Time now, PeerId from, const Message& message, bool busy, bool votes,
                const GenerationPlanner& planner, Effects& out);
  /// Refuses to work with `peer` for a while, and reports it. True if the generation has to end for
  /// that.
  [[nodiscard]] bool refuse(Time now, PeerId peer, const std::string& why, Effects& out);
  /// Takes over the version of a state that the next job is to load.
  void adopt(const ArrivedState& state);
  /// If that job has refused the state, goes back to our own version, refuses the state's source
  /// for a while, and returns it. The mode then has to disturb the generation.
  std::optional<PeerId> reject_state(Time now, const JobDone& done, Effects& out);
  /// Likewise because the links with it are quarantined, which has been reported already.
  [[nodiscard]] bool follow_quarantine(Time now, PeerId peer, Effects& out) {
    agreement_.refuse(now, peer, out);
    return agreement_.is_spoilt();
  }
  /// Drops a peer that is gone from the candidates. True if the generation has to end for that, or
  /// if none runs.
  bool is_disturbed_by(Time now, PeerId gone, Phase phase);
  /// Something is wrong: ends the generation for all peers and records an interruption. Returns
  /// true if it was left. Before our first ballot and after our last it does nothing and returns
  /// false.
  [[nodiscard]] bool disturb(Time now, const std::vector<PeerId>& blamed, Effects& out);
  /// Ends the generation for all peers, and for us at once.
  void end(Time now, const std::vector<PeerId>& blamed, Effects& out);
  /// Leaves it without a message to the others.
  void leave();
  /// We leave the run. In phase `done` the other peers need no message.
  void leave_for_good(Time now, Phase phase, Effects& out);

  // ---- Operations ----

  /// An operation of `steps` steps, which began at `from_step`, is done.
  void operation_done(Time now, std::uint64_t from_step, std::uint64_t steps, Effects& out);
  /// Operations finished by us.
  std::uint64_t operations() const { return operations_; }
  /// Recent seconds of an operation, smoothed; 0 before the first are done.
  double operation_seconds() const { return stragglers_.operation_seconds(); }
  double steps_per_second() const { return steps_per_second_; }
  /// Generations that we took part in.
  std::uint64_t count() const { return count_; }
  const RecoveryLog& recoveries() const { return recoveries_; }
  /// Adds the figures that every mode with generations reports at the end of its section:
  /// checkpoints and the newest recovery.
  void add_to(ReportSection& section, const Course& course, const Membership& members) const;
  /// Counters that every mode with generations has.
  void add_to(std::vector<ReportMetric>& metrics) const;

 private:
  /// What a state from `source` has replaced.
  struct Replaced {
    PeerId source{};
    ModelVersion version;
  };

  PeerId self_;
  Agreement agreement_;
  StragglerDetector stragglers_;
  RebalancePolicy rebalance_;
  RecoveryLog recoveries_;
  std::vector<PeerId> present_;  ///< Peers that could take part.
  std::vector<PeerId> order_;    ///< Peers of the newest generation that we were in.
  std::uint64_t key_ = 0;
  std::uint64_t count_ = 0;
  std::uint64_t operations_ = 0;
  double steps_per_second_ = 0;
  std::optional<Replaced> replaced_;
  bool joined_ = false;  ///< We have called our first ballot, or answered one.
  bool rebalance_due_ = false;
};

/// One line: the lost peers, the seconds, and the number of peers that went on.
std::string to_line(const Recovery& recovery, const Membership& members);

}  // namespace gv
