// Ring mode: everybody steps in lockstep on the exact mean gradient, and any may die.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "consensus/ring/agreement.hpp"
#include "consensus/ring/all_reduce.hpp"
#include "peer/modes/mode.hpp"

namespace gv {

/// How a swarm steps in lockstep.
struct RingOptions {
  std::uint64_t run_seed = 1;
  std::uint64_t steps = 0;  ///< The training budget in operations: one optimiser step each.
  std::uint64_t layout_hash = 0;
  std::size_t elements = 0;                  ///< Parameters of the model.
  std::size_t state_elements = 0;            ///< Parameters and what the optimiser keeps.
  std::optional<ReduceAlgorithm> algorithm;  ///< Empty: the one predicted to be the fastest.
  ValueCodec codec = ValueCodec::identity;   ///< How values travel.
  std::size_t keep_per_block = 0;  ///< Values of every 512 that travel, the largest; 0 = all.
  std::size_t bucket_elements = 1 << 20;   ///< Gradients are summed in pieces of this size.
  std::size_t segment_elements = 1 << 16;  ///< Of one block on a lane.
  std::uint32_t batch = 64;                ///< Samples of an operation for each who takes part.
  std::uint32_t batch_max =
      0;  ///< Of one of them at most, however fast it is; 0 = batch, never more.
  std::uint64_t save_every_steps = 0;
  std::size_t wait_for_peers = 1;                ///< Begin when so many are there,
  Duration wait_max = std::chrono::seconds(20);  ///< or after this long.
  Duration linger = std::chrono::seconds(60);    ///< After the budget, serve others this long.
  RingAgreement::Options agreement;
};

/// Totals since the start.
struct RingCounts {
  std::uint64_t operations = 0;    ///< Finished by us.
  std::uint64_t epochs = 0;        ///< We took part in.
  std::uint64_t disturbances = 0;  ///< Epochs that ended because something went wrong.
  std::uint64_t states_sent = 0;
  std::uint64_t states_adopted = 0;
  std::uint64_t reduced_bytes = 0;  ///< Sent for all-reduces.
  std::uint64_t saves = 0;
  std::uint64_t save_failures = 0;
};

/// An epoch that ended badly, and how it went on.
struct RingInterruption {
  std::vector<PeerId> lost;     ///< Were in it and are not in that which made the next operation.
  double seconds = 0;           ///< From the end of the one to the first result of the other.
  std::size_t peers = 0;        ///< Made that operation.
  std::uint64_t operation = 0;  ///< Its number.
};

/// Synchronous data-parallel training without a leader. An operation is one optimiser step: every
/// peer's gradient is summed in buckets while backward still runs, and the mean over all samples is
/// applied by everybody. Whoever is lost ends the epoch; the rest agree on the next and rerun the
/// operation from their untouched gradients. A peer without the others' state is sent it.
class RingMode final : public Mode {
 public:
  /// `session` tells this process from earlier ones of the same peer.
  RingMode(PeerId self, std::uint64_t session, RingOptions options);

  void start(Time now, std::uint64_t step, bool joins_others, Membership& members, Effects& out,
             std::vector<Job>& jobs) override;
  void receive(Time now, PeerId from, const Message& message, Membership& members,
               Effects& out) override;
  void receive_block(Time now, PeerId from, const Block& block, Effects& out) override;
  void lane_lost(Time now, PeerId peer, Effects& out) override;
  void lane_refused(Time now, PeerId peer, Effects& out) override;
  void peer_gone(Time now, PeerId peer, Effects& out) override;
  void gradient_ready(Time now, std::uint64_t job, std::size_t begin, Effects& out) override;
  void complete(Time now, JobDone done, Membership& members, Effects& out,
                std::vector<Job>& jobs) override;
  void tick(Time now, Membership& members, Effects& out, std::vector<Job>& jobs) override;
  Time deadline() const override;
  void woke_up(Time now, Membership& members, Effects& out) override;
  void leave(Time now, Membership& members, Effects& out, std::vector<Job>& jobs) override;
  bool is_settling() const override { return false; }
  bool finished() const override { return finished_; }
  bool is_over(const Membership& members) const override;

  Phase phase() const override { return phase_; }
  std::uint64_t step() const override { return agreement_.standing().operation; }
  double steps_per_second() const override { return steps_per_second_; }
  double recent_loss() const override { return recent_loss_; }
  double recent_accuracy() const override { return recent_accuracy_; }
  double learning_rate() const override { return learning_rate_; }

  const RingAgreement& agreement() const { return agreement_; }
  const RingCounts& counts() const { return counts_; }
  /// The newest one that is over; none if nobody is in it.
  const RingInterruption& last_interruption() const { return last_interruption_; }
  /// How the sum is made in the epoch under way.
  ReduceAlgorithm algorithm() const { return shape_.algorithm; }

 private:
  using Vector = std::shared_ptr<std::vector<float>>;

  /// A block of an operation that we have not begun yet.
  struct Held {
    PeerId from{};
    TransferId id;
    std::vector<std::byte> bytes;
  };

  /// The gradient for the operation that is next, computed or being computed.
  struct Gradient {
    Vector values;
    std::uint32_t samples = 0;
    std::size_t begin = 0;  ///< Final from here on.
    std::uint64_t job = 0;  ///< That computes it; 0: not asked for yet.
    bool valid = false;     ///< Belongs to the model as it is.
  };

  void enter_epoch(Time now, Effects& out);
  void leave_epoch();
  void begin_operation(Effects& out);
  void offer_buckets(Effects& out);
  void finish_operations(Time now, Effects& out);
  void receive_state(Time now, const Block& block);
  void disturb(Time now, std::optional<PeerId> blamed, Effects& out);
  void become_interrupted(Time now);
  void become_resumed(Time now, std::uint64_t operation, Effects& out);
  void watch_for_stalls(Time now, Effects& out);
  void look_for_newcomers(Time now, Effects& out);
  void balance(Time now, Effects& out);
  void next_job(std::vector<Job>& jobs, Effects& out);
  void learn_from(const JobDone& done);
  void set_candidates(Time now, Membership& members);
  bool is_waiting() const;
  Duration stall_after() const;
  Duration answers_within() const;
  Vector blank(std::vector<Vector>& pool, std::size_t size);
  void report(Membership& members) const;
  bool others_done(const Membership& members) const;

  PeerId self_;
  std::uint64_t session_;
  RingOptions options_;
  RingAgreement agreement_;
  Phase phase_ = Phase::joining;
  bool started_ = false;
  bool joins_others_ = false;
  bool wanted_ = false;  ///< The first epoch was asked for.
  bool leaving_ = false;
  bool last_job_ = false;
  bool finished_ = false;
  bool linger_over_ = false;
  Time waiting_since_{};
  Time done_since_{};

  // The epoch under way.
  std::uint64_t epoch_key_ = 0;  ///< 0: none.
  std::size_t rank_ = 0;
  AllReduceOptions shape_;
  float weight_ = 1;
  std::uint64_t epoch_samples_ = 0;  ///< Of one operation of everybody.
  std::optional<AllReduce> reduce_;
  std::vector<bool> offered_;    ///< Buckets of `reduce_` whose input was given to it.
  std::set<PeerId> owed_state_;  ///< Whom we have to send our state.
  bool fetching_ = false;        ///< We have to be sent one.
  Vector incoming_;
  std::size_t incoming_bytes_ = 0;
  PeerId source_{};
  std::deque<Held> held_;
  std::size_t held_bytes_ = 0;
  std::vector<PeerId> candidates_;
  Time newcomers_since_ = never;
  std::vector<PeerId> balanced_order_;  ///< Whose shares are looked at,
  std::uint64_t balance_after_ = 0;     ///< after so many operations
  std::uint64_t balance_count_ = 0;     ///< from this one on.
  Time knock_at_ = never;               ///< When the lost are asked after.
  std::optional<Time> disturbed_at_;    ///< An epoch ended badly and no operation finished since.

  std::vector<PeerId> interrupted_;  ///< Who was in that epoch.
  RingInterruption last_interruption_;

  // Stalls.
  std::uint64_t seen_progress_ = 0;
  Time progress_at_{};
  double operation_seconds_ = 0;  ///< Of late, smoothed.
  Time operation_began_{};
  double stall_factor_ = 1;  ///< Grows while checks find everybody well.
  std::optional<Time> checked_at_;
  Time check_again_at_ = never;
  std::set<PeerId> silent_;  ///< Have not answered the check under way.
  bool somebody_busy_ = false;
  int idle_checks_ = 0;

  // Jobs.
  bool job_running_ = false;
  std::uint64_t job_number_ = 0;
  Gradient gradient_;
  Vector result_;                  ///< To be applied by the next job.
  std::optional<Standing> adopt_;  ///< `incoming_` is whole and has this standing.
  Standing taken_state_;           ///< Of the state that was last asked of a job.
  std::uint64_t saved_step_ = 0;
  std::vector<Vector> works_;
  std::vector<Vector> states_;

  double steps_per_second_ = 0;
  double recent_loss_ = 0;
  double recent_accuracy_ = 0;
  double learning_rate_ = 0;
  RingCounts counts_;
};

}  // namespace gv
