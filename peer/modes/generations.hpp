// Follows one peer's side of generations: joining one, ending it, and recovering.
#pragma once

#include <cstdint>
#include <map>
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

/// Why we refuse a peer that sent values which are not finite, or far too large to be summed.
inline constexpr const char* not_finite = "it sent values that are not finite or far too large";

/// Returns the live peers that have our layout, including ourselves, sorted.
std::vector<PeerId> alike_peers(PeerId self, std::uint64_t layout_hash, const Membership& members);

/// Follows a peer's side of generations. A ballot decides which peers take part in a generation and
/// from which state they continue. If a peer is lost, the generation ends for all, and another
/// ballot follows. A mode owns one object of this class. The mode knows what an operation is (a
/// collective, a round or a pipeline run) and when one can begin. When a function reports that a
/// generation was left, the mode gives up its work in that generation. Pure.
class Generations {
 public:
  /// `session` distinguishes this process from earlier ones of the same peer. `signer` has the key
  /// of `self`, and must outlive this object.
  Generations(PeerId self, std::uint64_t session, const Agreement::Options& options,
              const Signer& signer)
      : self_(self),
        agreement_(self, session, options, signer),
        stragglers_(self),
        rebalance_(self) {}

  const Agreement& agreement() const { return agreement_; }
  Agreement& agreement() { return agreement_; }
  /// The generation that peers have agreed on; null between generations.
  const Generation* current() const { return agreement_.generation(); }
  /// The key of the generation that the mode is in; 0 if it is in none.
  std::uint64_t key() const { return key_; }
  bool is_in_one() const { return key_ != 0; }
  std::uint64_t step() const { return agreement_.version().step; }

  // ---- Called by a mode in each tick, in this order ----

  /// Makes all live peers with our layout candidates. Returns true if the candidates have changed.
  bool set_candidates(Time now, std::uint64_t layout_hash, const Membership& members);
  /// The candidates, without excluded peers.
  const std::vector<PeerId>& candidates() const { return agreement_.candidates(); }
  /// Calls the first ballot once enough peers are present.
  void join(Time now, Course& course, Effects& out);
  /// True if we take part in ballots and operations.
  bool takes_part(const Course& course) const { return joined_ && !course.is_leaving(); }
  bool has_joined() const { return joined_; }
  /// True if the generation should end after the operation under way, because a better one is
  /// possible. `is_planned` means that generations are planned from measured speeds, so that new
  /// speeds can make a better plan.
  bool is_rebalance_due(Time now, Phase phase, bool is_planned, Effects& out);
  bool is_rebalance_due() const { return rebalance_due_; }
  /// From now on, peers that are done admit late peers and other groups that are done, so that all
  /// end with one model. Without this, a generation that is done stays as it is.
  void unite_at_end() { unites_ = true; }
  /// Requests a new generation after the operation under way, for a reason that only the caller
  /// knows.
  void renew() { rebalance_due_ = true; }
  /// Returns the peers for which an operation has waited too long. Nullopt means that no peer is
  /// late. An empty list means that only data were lost. `waiting` means that we have done our part
  /// of the operation and wait for other peers. `progress` must change with every arrival.
  std::optional<std::vector<PeerId>> find_lost(Time now, bool waiting, std::uint64_t progress,
                                               Effects& out);
  void agree(Time now, const GenerationPlanner& planner, Effects& out) {
    agreement_.tick(now, planner, out);
  }
  /// Whether the mode has to give up its generation, and which one it enters (null if none).
  struct Change {
    bool left = false;
    const Generation* entered = nullptr;
  };
  Change follow(Time now, const Course& course);
  /// Moves the course forward: to training once the mode is `ready`, and later to its end.
  void move_on(Time now, bool ready, const Mode& mode, Course& course, Membership& members,
               Effects& out);
  /// When the next tick is due, given `own`, the deadline of the mode's other parts.
  Time deadline(const Course& course, bool waiting, Time own) const;

  // ---- Other inputs ----

  enum class Heard {
    other,      ///< The message is not about generations.
    handled,    ///< The message was handled, and the mode has nothing else to do.
    disturbed,  ///< The sender is in another generation, so ours has to end.
  };
  /// Takes a message. `busy` means that other peers wait for a result or a download from us.
  /// `votes` means that we answer ballots. Proofs of equivocation count even if we do not vote,
  /// because the next mode learns about them from this one.
  Heard receive(Time now, PeerId from, const Message& message, bool busy, bool votes,
                const GenerationPlanner& planner, Effects& out);
  /// Refuses to work with `peer` for a while, and reports this. Returns true if the generation has
  /// to end because of this.
  [[nodiscard]] bool refuse(Time now, PeerId peer, const std::string& why, Effects& out);
  /// Usually returns ArrivedState::norm_cap(). Returns 0, which accepts any norm, if we have
  /// recently refused the norms of two or more models, from more than a third of all peers. If
  /// fewer than a third of the peers are hostile, one of the refused peers is then honest, and our
  /// own model is the one that differs.
  double norm_cap_of(Time now, const ArrivedState& state) const;
  /// Takes over the version of a state that the next job will load.
  void adopt(const ArrivedState& state);
  /// If the job has refused the adopted state, goes back to our own version and refuses the state's
  /// source for a while. Then returns the source, and the mode has to disturb the generation.
  /// Otherwise returns nullopt.
  std::optional<PeerId> reject_state(Time now, const JobDone& done, Effects& out);
  /// Like refuse(), for a peer whose quarantine has already been reported.
  [[nodiscard]] bool follow_quarantine(Time now, PeerId peer, Effects& out) {
    agreement_.refuse(now, peer, out);
    return agreement_.is_spoilt();
  }
  /// Removes a lost peer from the candidates. Returns true if the generation has to end because of
  /// this, or if none is running.
  bool is_disturbed_by(Time now, PeerId gone, Phase phase);
  /// Ends the generation for all peers because of a problem, and records an interruption. Returns
  /// true if we have left the generation. Before our first ballot and after our last, does nothing
  /// and returns false.
  [[nodiscard]] bool disturb(Time now, const std::vector<PeerId>& blamed, Effects& out);
  /// Ends the generation for all peers, and leaves it at once.
  void end(Time now, const std::vector<PeerId>& blamed, Effects& out);
  /// Leaves the generation without telling the others.
  void leave();
  /// Call when we leave the run. In phase `done`, the other peers need no message about it.
  void leave_for_good(Time now, Phase phase, Effects& out);

  // ---- Operations ----

  /// Call when an operation of `steps` steps that began at `from_step` is done.
  void operation_done(Time now, std::uint64_t from_step, std::uint64_t steps, Effects& out);
  /// Number of operations that we have finished.
  std::uint64_t operations() const { return operations_; }
  /// The recent duration of an operation in seconds, smoothed; 0 before the first one is done.
  double operation_seconds() const { return stragglers_.operation_seconds(); }
  double steps_per_second() const { return steps_per_second_; }
  /// Number of generations that we have entered.
  std::uint64_t count() const { return count_; }
  const RecoveryLog& recoveries() const { return recoveries_; }
  /// Adds the newest recovery, which every mode with generations reports at the end of its section.
  void add_to(ReportSection& section, const Membership& members) const;
  /// Adds the metrics that all modes with generations have in common.
  void add_to(std::vector<ReportMetric>& metrics) const;

 private:
  std::vector<PeerId> settled_peers(const Course& course) const;
  bool is_apart(const Course& course, const Membership& members) const;

  /// The version of our own state, which the state of `source` has replaced.
  struct Replaced {
    PeerId source{};
    ModelVersion version;
  };

  PeerId self_;
  Agreement agreement_;
  StragglerDetector stragglers_;
  RebalancePolicy rebalance_;
  RecoveryLog recoveries_;
  std::vector<PeerId> present_;  ///< Peers that can be in a generation.
  std::vector<PeerId> order_;    ///< Peers of the newest generation that included us.
  std::uint64_t key_ = 0;
  std::uint64_t count_ = 0;
  std::uint64_t operations_ = 0;
  double steps_per_second_ = 0;
  std::optional<Replaced> replaced_;
  std::map<PeerId, Time> longer_;  ///< When we last refused a peer's model because of its norm.
  bool joined_ = false;            ///< True if we have called our first ballot or answered one.
  bool rebalance_due_ = false;
  bool unites_ = false;
};

/// Formats a line with the lost peers, the duration of the recovery, and the number of remaining
/// peers.
std::string to_line(const Recovery& recovery, const Membership& members);

}  // namespace gv
