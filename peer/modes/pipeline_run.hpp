// Plays one peer's part in a pipeline run: carries out its list of instructions in order.
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

#include "base/own_copy.hpp"
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

class StateHash;

/// Carries out schedules. All peers that know the generation and the number of a run compute the
/// same groups, routes and lists. So each peer knows which inputs will arrive and where its results
/// go. A group of peers is one worker of the schedule: all members make the group's passes, each
/// for its own slices of the layers. A run changes no lasting state, so it can be given up without
/// effect. Pure, with value semantics.
///
/// A copy has its own memory. But a task writes to the memory of the run that returned it. So copy
/// a run only when all tasks that next() has returned have been carried out, whether or not done()
/// was called for them. Likewise, transfers under way read the memory of the run that asked for
/// them. Two runs are equal only if all bits of their memory are, even where nothing was written
/// yet.
class PipelineRun {
 public:
  PipelineRun(PeerId self, std::uint64_t run_seed, const PipelineOptions& options);

  /// Starts a generation, in which runs can begin.
  void enter(const Generation& generation);
  /// Gives up the run under way.
  void leave();

  /// Begins the run with the number `operation`. If `tests` is set, the run tests the model first;
  /// all peers of the generation must pass the same value.
  void begin(std::uint64_t operation, bool tests, Effects& out);
  bool is_begun() const { return begun_; }

  /// Returns the next task; nullopt while its input is missing. Tasks must be done in the order in
  /// which they are returned.
  std::optional<Job::Task> next();
  /// True once, after next() has returned our last test pass in the last stage.
  bool take_tested() { return std::exchange(is_tested_, false); }
  /// Call when the job with the oldest task that next() has returned is done.
  void done(const Job& job, Effects& out);

  /// Takes a block. Returns true if the block belongs to a run of this generation.
  bool receive(PeerId from, const Block& block, Effects& out);
  /// Returns the memory for a piece of a sum under way (see AllReduce::place).
  std::span<std::byte> place(PeerId from, const TransferId& id, std::uint64_t offset,
                             std::size_t bytes);

  /// True if all of our work is done and our sums with other replicas are complete.
  bool is_complete() const;
  /// True if each of our sums contains every micro-batch exactly once from each member of the group
  /// that computed it.
  bool counts_once() const;
  /// Ends the run and returns its result for each of our stages.
  std::vector<StageEnd> finish();
  /// Number of our own batches that the run has drawn.
  std::size_t drawn() const { return drawn_; }

  /// True if `peer` carries one of our stages, or a stage next to one of ours.
  bool involves(PeerId peer) const;
  /// True if the next input has to come from another peer.
  bool is_waiting() const;
  std::uint64_t progress() const { return progress_; }
  /// The peer, if any, that sent values which are not finite or are too large. None of these values
  /// were used, and the run cannot end.
  std::optional<PeerId> unsound_from() const;

  std::uint64_t operation() const { return operation_; }
  const std::vector<std::uint32_t>& own_stages() const { return own_stages_; }
  /// The parts that we carry, in ascending order.
  std::vector<std::uint32_t> own_parts() const;
  /// Our slices of a stage; empty if the stage has none.
  Range own_slices(std::uint32_t stage) const;
  /// The carriers of each part, as ranks in the generation's order.
  const std::vector<std::vector<std::uint32_t>>& holders() const { return holders_; }
  /// The carriers of each stage, as ranks in the generation's order.
  const std::vector<std::vector<std::uint32_t>>& replicas() const { return replicas_; }
  const std::vector<PeerId>& order() const { return order_; }
  /// The groups that carry each stage.
  const std::vector<std::vector<std::uint32_t>>& workers() const { return workers_; }
  /// The members of each group, as ranks in the generation's order.
  const PeerGroups& groups() const { return groups_; }
  /// The fraction of a pass that we compute, from 0 to 1, as if our group shared all the work of a
  /// pass.
  double own_share() const;
  /// The number of parts that an instruction's pass consists of.
  std::size_t parts_of(const PipelineInstruction& what) const { return sums_in(what).size() + 1; }
  std::uint64_t bytes_sent() const { return bytes_sent_ + group_sums_.bytes_sent(); }
  /// Bytes of blocks that are kept for later sums.
  std::size_t held_bytes() const { return held_.bytes() + group_sums_.held_bytes(); }

  friend bool operator==(const PipelineRun& a, const PipelineRun& b);
  void add_to(StateHash& hash) const;

 private:
  /// Values that tasks, sums or blocks write. A copied run writes to its own copy.
  using Values = OwnCopy<Floats>;

  /// A result of a pass that is arriving, or has arrived.
  struct Incoming {
    PeerId from{};
    Values values;
    Reassembly blocks;  ///< Empty, and so complete, for results of our own.
  };

  /// The sum of consecutive slices of ours that all have the same carriers.
  struct SliceSum {
    std::uint32_t part = 0;  ///< The number of the first slice in this sum.
    std::size_t buckets = 0;
    AllReduce reduce;

    static constexpr std::size_t field_count = 3;
  };

  /// The replicas of one of our stages, and their sum.
  struct StageSum {
    std::uint32_t stage = 0;
    /// The peers that make the sum. If there is only one, no sum is needed.
    std::vector<PeerId> members;
    /// Our gradients, followed by counts that serve as the contribution checksum: for each
    /// micro-batch, one count for each possible member of a group.
    Values gradients;
    /// The parameters to average, followed by counts as in `gradients`; null if none are averaged.
    Values parameters;
    std::optional<AllReduce> reduce;
    /// The gradients of our slices, followed by a count for each slice and micro-batch; null if
    /// there are no slices.
    Values slices;
    Values sliced;  ///< The sum of `slices` over all groups, if there are several.
    std::vector<SliceSum> slice_sums;  ///< The sums that together give `sliced`.
    std::size_t buckets = 0;           ///< The number of buckets in `reduce`.
    std::size_t own = 0;               ///< The number of micro-batches that pass through our group.
    /// True if a job that copies or sends our parameters has been requested.
    bool ordered = false;
    bool copied = false;   ///< True if `parameters` has been copied.
    bool offered = false;  ///< True if our values have been added to the sum.
    /// The round of mixing by a rule; empty if this run has none.
    std::optional<std::uint64_t> round;
    bool sent = false;  ///< True if our messages of the round have been sent.

    static constexpr std::size_t field_count = 15;
  };

  /// The sums of a run. Copied sums read and write the values that were copied with them.
  struct StageSums : std::vector<StageSum> {
    StageSums() = default;
    StageSums(const StageSums& other);
    StageSums(StageSums&&) noexcept = default;
    StageSums& operator=(const StageSums& other) { return *this = StageSums(other); }
    StageSums& operator=(StageSums&&) noexcept = default;
    ~StageSums() = default;
  };

  /// How one of our stages mixes by a rule in this generation.
  struct Mixing {
    std::vector<PeerId> order;  ///< The stage's replicas, ordered by their ranks within the stage.
    RoundPlan plan;
    RoundInbox box;
    std::optional<MixPlace> place;  ///< Our rank and peers, until a task passes them to the mixer.

    static constexpr std::size_t field_count = 4;
  };

  /// A pass whose parts next() returns one by one.
  struct Pass {
    PipelineInstruction what;
    std::size_t part = 0;  ///< The number of the next part to return.
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
  /// The sum whose pieces carry this number in place of a stage number; null if there is none.
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
  /// The sums that our group makes during an instruction's pass; none if we are alone in the group.
  const std::vector<GroupSum>& sums_in(const PipelineInstruction& what) const;
  bool may_begin(const PipelineInstruction& what) const;
  std::optional<Job::Task> batch_in_advance();
  std::optional<Job::Task> next_part(std::size_t pass);
  static GroupSumName sum_name(const PipelineInstruction& what, std::size_t part);
  void send_round(const task::SendStage& send, Effects& out);
  void pass_on(const task::StagePass& pass, Effects& out);
  StageSum& sum_of(std::uint32_t stage);
  /// True if next() has returned all instructions.
  bool is_list_done() const { return position_ == list().size() && passes_.empty(); }
  const std::vector<PipelineInstruction>& list() const { return list_; }
  const std::vector<std::uint32_t>& own_group() const { return groups_.members[worker_]; }
  std::optional<Job::Task> parameters_task();
  std::optional<task::StagePass> part_of(const Pass& pass);
  auto state() const;

  PeerId self_;
  std::uint64_t run_seed_;
  PipelineOptions options_;
  StagePlanOptions plan_;
  std::size_t members_max_ = 1;  ///< The largest number of members that a group can have.
  std::uint64_t key_ = 0;
  std::vector<PeerId> order_;
  std::size_t rank_ = 0;
  std::vector<std::vector<std::uint32_t>> replicas_;
  std::vector<std::vector<std::uint32_t>> holders_;  ///< The carriers of each part, as ranks.
  std::vector<std::uint32_t> own_stages_;
  std::map<std::uint32_t, Range> own_slices_;  ///< Our slices of each stage.
  PeerGroups groups_;
  std::uint32_t worker_ = 0;       ///< The number of our group.
  std::vector<PeerId> own_peers_;  ///< The peers in our group.
  /// The groups that carry each stage, by number.
  std::vector<std::vector<std::uint32_t>> workers_;
  std::vector<double> worker_speeds_;
  std::shared_ptr<const GroupPlace> place_;  ///< Our place in our group.
  std::uint64_t operation_ = 0;
  bool begun_ = false;
  std::size_t computing_ = 0;  ///< Tasks that next() has returned but that are not done.
  Routes routes_;
  /// Routes of runs that have not begun at this peer yet.
  std::map<std::uint64_t, Routes> early_routes_;
  Routes test_routes_;     ///< The routes of test micro-batches, which are the same in every run.
  bool has_test_ = false;  ///< True if the present run has a test.
  /// Our instructions in a run. They are the same in every run, unless a random router draws other
  /// routes.
  std::vector<PipelineInstruction> scheduled_;
  /// The instructions of the test, if any, and then those of the schedule.
  std::vector<PipelineInstruction> list_;
  std::size_t tests_left_ = 0;  ///< Test passes in the last stage that next() has not returned yet.
  bool is_tested_ = false;      ///< True if the last of the test passes has been returned.
  std::size_t position_ = 0;
  std::deque<Pass> passes_;  ///< Passes that have begun but whose parts have not all been returned.
  /// The forward pass whose batch was drawn in advance. The rest of this pass has not begun.
  std::optional<PipelineInstruction> drawn_for_;
  std::size_t drawn_ = 0;
  StageSums sums_;
  GroupSums group_sums_;
  std::map<std::uint32_t, Mixing> mixing_;  ///< How each stage mixes.
  std::map<PassName, Incoming> incoming_;
  EarlyBlocks held_;  ///< Early blocks for the sums of the next run.
  VectorPools pools_;
  std::uint64_t progress_ = 0;
  std::optional<PeerId> unsound_pass_;  ///< The sender of a result with invalid values.
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace gv
