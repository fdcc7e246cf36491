// Mode `pipeline`: chains of peers carry the stages of a model, and survive the loss of any peer.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "consensus/generation/link_survey.hpp"
#include "peer/modes/agreed_end.hpp"
#include "peer/modes/early_blocks.hpp"
#include "peer/modes/generations.hpp"
#include "peer/modes/mode.hpp"
#include "peer/modes/pipeline_options.hpp"
#include "peer/modes/pipeline_run.hpp"
#include "peer/modes/stage_pace.hpp"
#include "peer/modes/stage_planner.hpp"
#include "peer/modes/stage_states.hpp"
#include "peer/modes/swarm_work.hpp"

namespace gv {

/// Totals since this peer started.
struct PipelineCounts {
  std::uint64_t operations = 0;   ///< Runs that we have finished.
  std::uint64_t generations = 0;  ///< Generations that we have entered.
  std::uint64_t losses = 0;     ///< Times that we continued after losing peers. The loss of several
                                ///< peers at once counts once.
  std::uint64_t rollbacks = 0;  ///< Times that we returned to a copy because a stage was lost.
  std::uint64_t steps_lost = 0;  ///< Steps lost in rollbacks.
  std::uint64_t states_sent = 0;
  std::uint64_t states_adopted = 0;
  std::uint64_t passed_bytes = 0;  ///< Bytes sent in runs to neighbours and replicas.
  double computing_s = 0;          ///< Seconds that the worker spent in jobs.
  double waiting_s = 0;            ///< Seconds that the worker waited during runs.
};

/// Trains in operations. Each operation is one pipeline run of a schedule: micro-batches go forward
/// and backward through all stages, and updates follow. Peers agree on the stage assignments by
/// ballots, as in mode `allreduce`. An update is made only when every peer has reported that its
/// part of the run is complete. So if any peer has finished a run, all live peers can finish it,
/// and any other run can be given up without a trace. If a stage is lost with all its carriers, all
/// peers roll back to the newest copies of all stages. If the time of the training run is over or
/// its target is reached, training ends with a version that a ballot chooses.
///
/// With a target accuracy, some pipeline runs begin with a test: micro-batches of test samples go
/// forward through all stages, and each carrier of the last stage votes on the samples that it has
/// seen (see Judges). A test changes no model. It belongs to its pipeline run, so if the run is
/// given up, the test is repeated with it.
class PipelineMode final : public Mode {
 public:
  PipelineMode(PeerId self, std::uint64_t session, const CourseOptions& course,
               const PipelineOptions& options, const Signer& signer, const Rng& draws);

  void start(Time now, std::uint64_t step, bool joins_others) override;
  void receive(Time now, PeerId from, const Message& message, Membership& members,
               Effects& out) override;
  void receive_block(Time now, PeerId from, const Block& block, Effects& out) override;
  std::span<std::byte> place(PeerId from, const TransferId& id, std::uint64_t offset,
                             std::size_t bytes) override {
    return run_.place(from, id, offset, bytes);
  }
  void lane_lost(Time now, PeerId peer, Effects& out) override;
  void lane_refused(Time now, PeerId peer, Effects& out) override;
  void peer_gone(Time now, PeerId peer, Effects& out) override;
  void refuse(Time now, PeerId peer, Effects& out) override {
    if (generations_.follow_quarantine(now, peer, out)) disturb(now, {peer}, out);
  }
  void complete(Time now, JobDone done, Membership& members, Effects& out) override;
  void tick(Time now, Membership& members, Effects& out, std::vector<Job>& jobs) override;
  Time deadline() const override;
  void leave(Time now, Effects& out) override;

  /// True while we send states that other peers can get only from us.
  bool is_settling() const override { return handing_over_; }
  bool is_idle() const override { return !due_.end && due_.loads.empty(); }
  const Course& course() const override { return course_; }
  ModeReport report(const Membership& members) const override;
  const SwarmWork* swarm_work() const override { return work_.is_on() ? &work_ : nullptr; }
  const Generations* generations() const override { return &generations_; }
  std::uint64_t step() const override { return generations_.step(); }
  double steps_per_second() const override { return generations_.steps_per_second(); }

  const PipelineOptions& options() const { return options_; }
  PipelineCounts counts() const;
  /// Predicted seconds of a step in this generation; 0 if there is no generation or no prediction.
  double predicted_s() const;
  /// The recent duration of a step in this generation in seconds, smoothed; 0 before the first one.
  double measured_s() const { return measured_s_; }
  /// The parts of stages that we carry now (see StageParts). stages() returns the stages of these
  /// parts.
  const std::set<std::uint32_t>& held_parts() const { return carried_; }
  std::set<std::uint32_t> stages() const;
  /// The kept copies of our own parts and of other peers' parts.
  std::vector<StageHolding> copies() const { return states_.holdings(); }
  /// The fraction of all peers' work that we do: the sum, over our stages, of a stage's work
  /// divided by the number of its carriers.
  double work_done_here() const;
  /// The run under way. It knows the carriers of each stage.
  const PipelineRun& run() const { return run_; }
  /// Bytes of blocks that arrived before their run began at this peer.
  std::size_t held_bytes() const { return early_.bytes() + run_.held_bytes(); }

 private:
  /// The work that the next job does before its part of a run, in the order of the fields.
  struct Due {
    bool abandons = false;  ///< True if the job gives up the run under way.
    std::optional<task::EndRun> end;
    std::vector<StageCopy> exports;
    std::optional<task::MoveTo> move;
    std::vector<task::HeldSlices> held;
    std::vector<StageCopy> loads;
    std::vector<std::uint32_t> releases;
    std::vector<StageCopy> copies;

    bool is_empty() const {
      return !abandons && !end && exports.empty() && !move && held.empty() && loads.empty() &&
             releases.empty() && copies.empty();
    }
    Job job() && {
      Job job;
      if (abandons) job.add(task::AbandonRun{});
      if (end) job.add(*std::move(end));
      if (!exports.empty()) job.add(task::ExportStages{std::move(exports)});
      if (move) job.add(*move);
      if (!held.empty() || !loads.empty()) {
        job.add(task::LoadStages{std::move(held), std::move(loads)});
      }
      if (!releases.empty()) job.add(task::ReleaseStages{std::move(releases)});
      if (!copies.empty()) job.add(task::CopyStages{std::move(copies)});
      return job;
    }
  };

  Generation by_part(Generation decided) const;
  void begin_generation(Time now, const Generation& decided, Effects& out);
  void abandon();
  void disturb(Time now, const std::vector<PeerId>& blamed, Effects& out);
  void end_generation(Time now, Effects& out);
  bool follow_generation(Time now, Effects& out);
  void follow_pins(const Membership& members);
  std::optional<ModelVersion> believed(Time now) const;
  void look_after_generation(Time now, Effects& out);
  void receive_own(Time now, PeerId from, const Message& message, Effects& out);
  void follow_budget(Time now);
  bool is_waiting() const;
  std::uint64_t progress() const;
  void go_on(Time now, Effects& out);
  void next_job(Time now, std::vector<Job>& jobs);

  ModelVersion beginning() const;
  void end_last_run(const ModelVersion& version);
  void plan_exports();
  void keep_exports(const task::ExportStages& exported, const ModelVersion& version, Effects& out);
  void keep_until_run();
  bool may_become_ready() const;
  void give_up_odd(Time now, Effects& out);
  void hand_over();
  void end_handing_over(Time now, Effects& out);
  void taken_over(PeerId peer, const StatusReply& here);
  const Generation* served() const;
  void become_ready(Time now, Effects& out);
  void begin_run(Time now, Effects& out);
  void complete_run(Time now, Effects& out);
  bool is_agreed() const;
  void become_made();
  void commit(Time now, Effects& out);
  void say_complete(std::uint64_t operation, PeerId to, bool again, Effects& out) const;
  void plan_copies(const ModelVersion& version);
  std::optional<PeerId> keeper_of(std::uint32_t part) const;
  bool copies_from(PeerId peer, std::uint32_t part) const;
  void keep_copy(const StageCopy& copy, const ModelVersion& version, Effects& out);
  bool is_test_due() const;
  std::uint64_t sitting() const;
  void choose_panel();
  void add_measurement(Job& job);
  void tell_verdict(const JobDone& done, Membership& members, Effects& out);
  bool may_ask_ahead() const;
  bool ask(Time now, std::vector<Job>& jobs);
  void measure(const task::StagePass& pass, double busy_s);
  void measure_step(Time now);
  void tell_holdings();

  PeerId self_;
  Course course_;
  SwarmWork work_;
  AgreedEnd end_;
  Generations generations_;
  StagePlanner planner_;
  PipelineOptions options_;
  StageParts parts_;
  PipelineRun run_;
  EarlyBlocks early_;           ///< Blocks that arrived before we entered their generation.
  std::uint64_t early_of_ = 0;  ///< The key of the generation of the blocks in `early_`.
  StageStates states_;
  /// Measures links. Empty if plans do not use measurements.
  std::optional<LinkSurvey> survey_;
  std::uint64_t begun_in_generation_ = 0;  ///< Runs begun in this generation.
  bool handing_over_ = false;  ///< True if we are leaving and other peers take over our states.
  Time hand_over_until_ = never;
  /// True if we have entered a generation but are not ready for its first run.
  bool preparing_ = false;
  bool run_was_begun_ = false;  ///< True if a run has begun, and is neither finished nor given up.
  std::set<std::uint32_t> carried_;  ///< The parts that we carry now.
  /// Parts that are still in memory but that we no longer carry, because most other carriers had a
  /// different state.
  std::set<std::uint32_t> given_up_;
  /// True if we left a version at which peers could still begin from the seed, and have finished no
  /// run since then.
  bool has_left_seed_ = false;
  /// Key of the generation to which we only hand over our stages.
  std::uint64_t last_generation_key_ = 0;
  Due due_;
  /// The key of the generation in which the jobs under way were requested.
  std::uint64_t job_generation_ = 0;

  // The end of the run under way.

  /// How to end the run; set once our part of it is complete.
  std::optional<task::EndRun> complete_;
  ModelVersion complete_version_;
  /// For each run, by its step, the peers that have reported that their parts are complete.
  std::map<std::uint64_t, std::set<PeerId>> completed_;
  Time say_again_at_ = never;
  /// The version at the last copying point in this generation.
  std::optional<ModelVersion> copied_;

  Time idle_since_{};
  StagePace pace_;            ///< Our measured speed.
  double planned_speed_ = 0;  ///< Our speed when the generation began; 0 if it was not known.
  Time run_began_at_{};       ///< When the run under way began.
  /// The time at which we began our first run, and the step of that run.
  std::optional<std::pair<Time, std::uint64_t>> first_run_;
  double measured_s_ = 0;      ///< See measured_s().
  std::vector<PeerId> panel_;  ///< The carriers of the last stage, which judge the model.
  PipelineCounts counts_;
};

}  // namespace gv
