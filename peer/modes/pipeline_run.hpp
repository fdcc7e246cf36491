// One peer's part in a pipeline run: its list of instructions, carried out in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "consensus/allreduce/all_reduce.hpp"
#include "consensus/generation/agreement.hpp"
#include "consensus/message/effects.hpp"
#include "consensus/mixing/round_plan.hpp"
#include "consensus/pipeline/peer_groups.hpp"
#include "consensus/transfer/reassembly.hpp"
#include "peer/modes/early_blocks.hpp"
#include "peer/modes/group_sums.hpp"
#include "peer/modes/pipeline_options.hpp"
#include "peer/modes/round_inbox.hpp"
#include "peer/modes/vector_pool.hpp"
#include "peer/node/job.hpp"
#include "train/learner/group_place.hpp"

namespace gv {

/// Carries out schedules. All peers that know the generation and the number of a run compute the
/// same groups, routes and lists, so each knows which inputs arrive and where its results go. A
/// group of peers is one worker of the schedule: all its members make its passes, each for its own
/// slices of the layers. A run changes no lasting state, so giving it up leaves the peer unchanged.
/// Pure.
class PipelineRun {
 public:
  PipelineRun(PeerId self, std::uint64_t run_seed, const PipelineOptions& options);

  /// Runs belong to this generation from now on.
  void enter(const Generation& generation);
  /// Gives up the run under way.
  void leave();

  /// Begins the run of that number. If `tests`, it first tests the model; all peers agree on this.
  void begin(std::uint64_t operation, bool tests, Effects& out);
  bool is_begun() const { return begun_; }

  /// The next task, if its input has arrived. Tasks are done in the given order.
  std::optional<Job::Task> next();
  /// True once, if we carry the last stage and next() has just returned our last pass of the test.
  bool take_tested() { return std::exchange(is_tested_, false); }
  /// Call when the job with the oldest task returned by next() is done.
  void done(const Job& job, Effects& out);

  /// True if the block belongs to this generation's runs.
  bool receive(PeerId from, const Block& block, Effects& out);
  /// Where to put a piece of a sum under way (AllReduce::place).
  std::span<std::byte> place(PeerId from, const TransferId& id, std::uint64_t offset,
                             std::size_t bytes);

  /// True if all of our work is done and our sums with other replicas are complete.
  bool is_complete() const;
  /// True if each of our sums contains every micro-batch exactly once, from each member of its
  /// group.
  bool counts_once() const;
  /// Ends the run and returns its result for each of our stages.
  std::vector<StageEnd> finish();
  /// Number of our own batches that the run took.
  std::size_t drawn() const { return drawn_; }

  /// True if that peer carries one of our stages, or a stage adjacent to ours.
  bool involves(PeerId peer) const;
  /// True if the next input has to come from another peer.
  bool is_waiting() const;
  std::uint64_t progress() const { return progress_; }
  /// A peer that sent values which are not finite. None of them were used. The run then cannot end.
  std::optional<PeerId> unsound_from() const;

  std::uint64_t operation() const { return operation_; }
  const std::vector<std::uint32_t>& own_stages() const { return own_stages_; }
  /// Parts that we carry, ascending.
  std::vector<std::uint32_t> own_parts() const;
  /// Our slices of a stage; empty if the stage has none.
  Range own_slices(std::uint32_t stage) const;
  /// Carriers of each part, as ranks in the generation's order.
  const std::vector<std::vector<std::uint32_t>>& holders() const { return holders_; }
  /// Carriers of each stage, as ranks in the generation's order.
  const std::vector<std::vector<std::uint32_t>>& replicas() const { return replicas_; }
  const std::vector<PeerId>& order() const { return order_; }
  /// The groups that carry each stage.
  const std::vector<std::vector<std::uint32_t>>& workers() const { return workers_; }
  /// Members of each group, as ranks.
  const PeerGroups& groups() const { return groups_; }
  /// The fraction of a pass that we compute, 0 to 1, if the group shares all of its work.
  double own_share() const;
  /// The number of parts of an instruction's pass.
  std::size_t parts_of(const PipelineInstruction& what) const { return sums_in(what).size() + 1; }
  std::uint64_t bytes_sent() const { return bytes_sent_ + group_sums_.bytes_sent(); }
  /// Bytes of early blocks of later sums.
  std::size_t held_bytes() const { return held_.bytes() + group_sums_.held_bytes(); }

 private:
  /// A result that is arriving, or has arrived.
  struct Incoming {
    PeerId from{};
    StageValues values;
    Reassembly blocks;  ///< Empty, and therefore complete, for our own results.
  };

  /// A sum over the carriers of some of our slices, the same in each group.
  struct SliceSum {
    std::uint32_t part = 0;  ///< The first of these slices.
    std::size_t buckets = 0;
    AllReduce reduce;
  };

  /// The replicas of one of our stages, and their sum.
  struct StageSum {
    std::uint32_t stage = 0;
    std::vector<PeerId> members;  ///< The peers that sum. A single peer skips the sum.
    /// Our gradients, followed for each micro-batch by one count for each member that a group may
    /// have (the contribution checksum).
    StageValues gradients;
    /// Parameters to average, followed by the same counts; null: none.
    StageValues parameters;
    std::optional<AllReduce> reduce;
    /// The gradients of our slices, followed by a count for each slice and micro-batch; null
    /// without slices.
    StageValues slices;
    StageValues sliced;  ///< The sum of the slices' gradients, if there are several groups.
    std::vector<SliceSum> slice_sums;  ///< The sums that make up `sliced`.
    std::size_t buckets = 0;           ///< Number of buckets of `reduce`.
    std::size_t own = 0;               ///< Micro-batches that pass through this peer.
    bool ordered = false;              ///< True if a job was asked to copy or send its parameters.
    bool copied = false;               ///< True if `parameters` holds the copy.
    bool offered = false;              ///< True if our values are in the sum.
    std::optional<std::uint64_t> round;  ///< Round of mixing by a rule; empty: this run has none.
    bool sent = false;                   ///< True if our messages of the round have been sent.
  };

  /// How one of our stages mixes by a rule in this generation.
  struct Mixing {
    std::vector<PeerId> order;  ///< The stage's replicas, by their ranks among themselves.
    RoundPlan plan;
    RoundInbox box;
    std::optional<MixPlace> place;  ///< Our place, until a task passes it on to the mixer.
  };

  /// A pass that is returned part by part.
  struct Pass {
    PipelineInstruction what;
    std::size_t part = 0;  ///< The part that is returned next.
  };

  Routes routes_of(std::uint64_t operation) const;
  std::size_t tests_of_run() const;
  void begin_test();
  void give_out_test(const PipelineInstruction& what);
  const std::vector<std::uint32_t>& route_of(std::uint32_t micro_batch) const;
  bool is_test(std::uint32_t micro_batch) const { return micro_batch >= options_.micro_batches; }
  std::size_t size_of(const PassName& name) const;
  bool may_keep(const PassName& name) const;
  void enter_groups(const HeldParts& held, const std::vector<std::uint32_t>& speeds);
  void enter_mixing(std::uint32_t stage);
  void make_sum(std::uint32_t stage);
  void make_slice_sums(StageSum& sum);
  /// The sum whose pieces have this number in place of a stage's; null if there is none.
  AllReduce* reduce_of(std::uint32_t part);
  std::vector<std::uint32_t> partners(std::uint32_t stage) const;
  void begin_sums(Effects& out);
  bool is_heard(const StageSum& sum) const;
  std::vector<MixMessage> take_round(const StageSum& sum);
  void skip_updates();
  std::size_t gradients_since_update(std::uint32_t stage) const;
  bool receive_pass(PeerId from, const Block& block);
  bool receive_piece(PeerId from, const Block& block, Effects& out);
  bool receive_message(PeerId from, const Block& block);
  bool carries(std::uint32_t part) const;
  bool is_from_neighbour(const PassName& name, std::uint64_t ahead, PeerId from);
  const Routes& early_routes(std::uint64_t operation);
  StageValues input_of(const PipelineInstruction& what);
  StageValues input_of(const Pass& pass);
  /// What we sum with our group in an instruction's passes; empty if we are alone in the group.
  const std::vector<GroupSum>& sums_in(const PipelineInstruction& what) const;
  bool may_begin(const PipelineInstruction& what) const;
  std::optional<Job::Task> batch_in_advance();
  std::optional<Job::Task> next_part(std::size_t pass);
  static GroupSumName sum_name(const PipelineInstruction& what, std::size_t part);
  void send_round(const task::SendStage& send, Effects& out);
  void pass_on(const task::StagePass& pass, Effects& out);
  StageSum& sum_of(std::uint32_t stage);
  StageValues blank(std::size_t size);
  /// True if all instructions have been returned by next().
  bool is_list_done() const { return position_ == list().size() && passes_.empty(); }
  const std::vector<PipelineInstruction>& list() const { return list_; }
  const std::vector<std::uint32_t>& own_group() const { return groups_.members[worker_]; }
  std::optional<Job::Task> parameters_task();
  std::optional<task::StagePass> part_of(const Pass& pass);

  PeerId self_;
  std::uint64_t run_seed_;
  PipelineOptions options_;
  StagePlanOptions plan_;
  std::size_t members_max_ = 1;  ///< Largest number of members that a group can have.
  std::uint64_t key_ = 0;
  std::vector<PeerId> order_;
  std::size_t rank_ = 0;
  std::vector<std::vector<std::uint32_t>> replicas_;
  std::vector<std::vector<std::uint32_t>> holders_;  ///< Carriers by part.
  std::vector<std::uint32_t> own_stages_;
  std::map<std::uint32_t, Range> own_slices_;  ///< Our slices by stage.
  PeerGroups groups_;
  std::uint32_t worker_ = 0;                         ///< The number of our group.
  std::vector<PeerId> own_peers_;                    ///< The members of our group.
  std::vector<std::vector<std::uint32_t>> workers_;  ///< For each stage, the groups that carry it.
  std::vector<double> worker_speeds_;
  std::shared_ptr<const GroupPlace> place_;  ///< Our place in our group.
  std::uint64_t operation_ = 0;
  bool begun_ = false;
  std::size_t computing_ = 0;  ///< Number of tasks returned and not done.
  Routes routes_;
  std::map<std::uint64_t, Routes> early_routes_;  ///< Routes of runs that have not begun here.
  Routes test_routes_;                            ///< Routes of a test's micro-batches in any run.
  bool has_test_ = false;                         ///< True if the present run has a test.
  /// Our instructions in a run. Only a random router draws other routes for the next run.
  std::vector<PipelineInstruction> scheduled_;
  std::vector<PipelineInstruction> list_;  ///< The instructions of the test, followed by those of
                                           ///< the schedule.
  std::size_t tests_left_ = 0;  ///< Test passes through us in the last stage that were not returned
                                ///< yet.
  bool is_tested_ = false;      ///< True if the last of these passes was returned.
  std::size_t position_ = 0;
  std::deque<Pass> passes_;  ///< Passes of which next() has not returned all parts yet.
  /// The forward pass whose batch is drawn already, while it has not begun otherwise.
  std::optional<PipelineInstruction> drawn_for_;
  std::size_t drawn_ = 0;
  std::vector<StageSum> sums_;
  GroupSums group_sums_;
  std::map<std::uint32_t, Mixing> mixing_;  ///< Mixing by stage.
  std::map<PassName, Incoming> incoming_;
  EarlyBlocks held_;                         ///< Blocks of the next run's sums.
  std::map<std::size_t, VectorPool> pools_;  ///< Pools by the size of their vectors.
  std::uint64_t progress_ = 0;
  std::optional<PeerId> unsound_pass_;  ///< The sender of a pass with values that are not finite.
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace gv
