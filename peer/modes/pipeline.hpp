// Pipeline mode: a model cut into stages, carried by chains of peers, and any of them may die.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "consensus/ring/agreement.hpp"
#include "peer/modes/interruptions.hpp"
#include "peer/modes/mode.hpp"
#include "peer/modes/pipeline_options.hpp"
#include "peer/modes/pipeline_run.hpp"
#include "peer/modes/renewal.hpp"
#include "peer/modes/stage_states.hpp"
#include "peer/modes/stall_watch.hpp"

namespace gv {

/// Totals since the start.
struct PipelineCounts {
  std::uint64_t operations = 0;  ///< Runs finished by us.
  std::uint64_t epochs = 0;      ///< We took part in.
  std::uint64_t losses = 0;      ///< Times we went on without somebody; several at once are one.
  std::uint64_t rollbacks = 0;   ///< Times we went back to a copy, because a stage was lost,
  std::uint64_t steps_lost = 0;  ///< and how many steps that cost.
  std::uint64_t states_sent = 0;
  std::uint64_t states_adopted = 0;
  std::uint64_t passed_bytes = 0;  ///< Sent to neighbours and replicas in runs.
  double computing_s = 0;          ///< Of the worker, in jobs.
  double waiting_s = 0;            ///< Of the worker, within runs.
};

/// An operation is one run of a schedule: some micro-batches through all stages and back, and the
/// updates. Who carries what is agreed on in ballots, as in lockstep. An update is made only when
/// everybody has said that its part of the operation is complete; so an operation that somebody has
/// made can be made by all who live, and one that nobody has made can be given up without a trace.
/// If a stage is lost with all its carriers, all go back to the newest copies of all stages.
class PipelineMode final : public Mode {
 public:
  PipelineMode(PeerId self, std::uint64_t session, const CourseOptions& course,
               const PipelineOptions& options);

  void receive(Time now, PeerId from, const Message& message, Membership& members,
               Effects& out) override;
  void receive_block(Time now, PeerId from, const Block& block, Effects& out) override;
  void lane_lost(Time now, PeerId peer, Effects& out) override;
  void lane_refused(Time now, PeerId peer, Effects& out) override;
  void peer_gone(Time now, PeerId peer, Effects& out) override;
  void tick(Time now, Membership& members, Effects& out, std::vector<Job>& jobs) override;
  Time deadline() const override;

  std::uint64_t step() const override { return agreement_.standing().operation; }
  double steps_per_second() const override { return steps_per_second_; }

  const RingAgreement& agreement() const { return agreement_; }
  const PipelineOptions& options() const { return options_; }
  PipelineCounts counts() const;
  const RingInterruption& last_interruption() const { return interruptions_.last(); }
  /// Stages we carry now.
  const std::set<std::uint32_t>& stages() const { return carried_; }
  /// The part of everybody's work that is done here: of each of our stages, shared among its
  /// carriers.
  double work_done_here() const;
  /// Carriers of each stage in the epoch under way, as ranks in its order.
  const PipelineRun& run() const { return run_; }

 private:
  void begin_at(std::uint64_t step) override;
  void take(Time now, JobDone done, Membership& members, Effects& out) override;
  void become_leaving(Time now, Effects& out) override;
  bool is_idle() const override { return !ends_due_ && !becomes_due_; }

  void set_candidates(Time now, Membership& members);
  void enter_epoch(Time now, Effects& out);
  void leave_epoch();
  void end_epoch(Time now, const std::vector<PeerId>& blamed, Effects& out);
  void disturb(Time now, const std::vector<PeerId>& blamed, Effects& out);
  void look_for_renewal(Time now, Effects& out);
  void watch_for_stalls(Time now, Effects& out);
  void advance(Time now, Effects& out);
  bool is_agreed() const;
  void become_ready(Time now, Effects& out);
  void begin_run(Time now, Effects& out);
  void complete_run(Time now, Effects& out);
  void commit(Time now, Effects& out);
  void say_complete(std::uint64_t operation, PeerId to, bool again, Effects& out) const;
  void plan_copies(const Standing& standing);
  std::optional<PeerId> keeper_of(std::uint32_t stage) const;
  void keep_copy(const StageCopy& copy, Effects& out);
  void measure(const PipelineOperation& what, double busy_s);
  void next_job(Time now, std::vector<Job>& jobs);
  void tell_claims();
  void answer(PeerId from, Effects& out);
  bool is_waiting() const;

  PipelineOptions options_;
  RingAgreement agreement_;
  PipelineRun run_;
  StageStates states_;
  StallWatch stalls_;
  EpochRenewal renewal_;
  Interruptions interruptions_;
  bool wanted_ = false;          ///< The first epoch was asked for.
  std::uint64_t epoch_key_ = 0;  ///< Of the one we are in; 0: none.
  bool preparing_ = false;       ///< In an epoch, and not ready for its first run.
  std::set<std::uint32_t> carried_;
  std::vector<PeerId> candidates_;

  // What the next job has to do.
  bool run_was_begun_ = false;  ///< And neither made nor given up yet.
  bool abandon_due_ = false;
  std::optional<std::vector<StageEnd>> ends_due_;
  std::size_t drawn_due_ = 0;
  std::optional<StageJob> becomes_due_;
  std::vector<std::uint32_t> hand_overs_due_;
  std::vector<std::uint32_t> copies_due_;

  /// The job under way belongs to this epoch, and its copies are of this standing.
  std::uint64_t job_epoch_ = 0;
  Standing job_standing_;

  // The end of the run under way.
  std::optional<std::vector<StageEnd>> complete_;  ///< Ours is, and this is what it comes to.
  std::size_t complete_drawn_ = 0;
  Standing complete_standing_;
  std::map<std::uint64_t, std::set<PeerId>> completed_;  ///< By operation, who has said so.
  Time say_again_at_ = never;
  std::optional<Standing> copied_;  ///< The last copying point of the epoch.
  bool renewal_due_ = false;        ///< The epoch ends when this run is over.

  Time idle_since_{};
  double steps_per_second_ = 0;
  double work_s_ = 0;  ///< Of passes by the plan, and by the clock: their ratio is our speed.
  double busy_s_ = 0;
  PipelineCounts counts_;
};

}  // namespace gv
