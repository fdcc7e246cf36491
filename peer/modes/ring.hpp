// Ring mode: everybody steps in lockstep on the exact mean gradient, and any may die.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "consensus/ring/agreement.hpp"
#include "consensus/ring/link_survey.hpp"
#include "peer/modes/interruptions.hpp"
#include "peer/modes/mode.hpp"
#include "peer/modes/renewal.hpp"
#include "peer/modes/ring_operation.hpp"
#include "peer/modes/ring_options.hpp"
#include "peer/modes/stall_watch.hpp"
#include "peer/modes/state_courier.hpp"

namespace gv {

/// Totals since the start.
struct RingCounts {
  std::uint64_t operations = 0;  ///< Finished by us.
  std::uint64_t epochs = 0;      ///< We took part in.
  std::uint64_t losses = 0;      ///< Times we went on without somebody; several at once are one.
  std::uint64_t states_sent = 0;
  std::uint64_t states_adopted = 0;
  std::uint64_t reduced_bytes = 0;  ///< Sent for all-reduces.
};

/// Synchronous data-parallel training without a leader. An operation is one optimiser step: every
/// peer's gradient is summed in buckets while backward still runs, and the mean over all samples is
/// applied by everybody. Or it is a period of local steps: what they take from the common model is
/// summed, and everybody makes the same outer step with the mean. Whoever is lost ends the epoch;
/// the rest agree on the next and rerun the operation from their untouched gradients. A peer
/// without the others' state is sent it.
class RingMode final : public Mode {
 public:
  /// `session` tells this process from earlier ones of the same peer.
  RingMode(PeerId self, std::uint64_t session, const CourseOptions& course,
           const RingOptions& options);

  void receive(Time now, PeerId from, const Message& message, Membership& members,
               Effects& out) override;
  void receive_block(Time now, PeerId from, const Block& block, Effects& out) override;
  void lane_lost(Time now, PeerId peer, Effects& out) override;
  void lane_refused(Time now, PeerId peer, Effects& out) override;
  void peer_gone(Time now, PeerId peer, Effects& out) override;
  void gradient_ready(Time now, std::uint64_t job, std::size_t begin, Effects& out) override;
  void tick(Time now, Membership& members, Effects& out, std::vector<Job>& jobs) override;
  Time deadline() const override;

  std::uint64_t step() const override { return agreement_.standing().operation; }
  double steps_per_second() const override { return steps_per_second_; }

  const RingAgreement& agreement() const { return agreement_; }
  RingCounts counts() const;
  /// The newest one that is over; none if nobody is in it.
  const RingInterruption& last_interruption() const { return interruptions_.last(); }
  /// How the sum is made in the epoch under way.
  ReduceAlgorithm algorithm() const { return operation_.algorithm(); }

 private:
  void begin_at(std::uint64_t step) override;
  void take(Time now, JobDone done, Membership& members, Effects& out) override;
  void become_leaving(Time now, Effects& out) override;
  bool is_idle() const override { return !result_ && !states_.owes_any(); }

  void enter_epoch(Time now, Effects& out);
  void leave_epoch();
  void end_epoch(Time now, const std::vector<PeerId>& blamed, Effects& out);
  void disturb(Time now, const std::vector<PeerId>& blamed, Effects& out);
  void begin_operation(Time now, Effects& out);
  bool is_quiet(Time now) const { return now < survey_.quiet_until(); }
  void finish_operations(Time now, Effects& out);
  void watch_for_stalls(Time now, Effects& out);
  void look_for_renewal(Time now, Effects& out);
  void answer(PeerId from, Effects& out);
  void adopt(Time now, ArrivedState state, Job& job, Effects& out);
  void next_job(Time now, std::vector<Job>& jobs, Effects& out);
  void set_candidates(Time now, Membership& members);

  std::uint64_t session_;
  RingOptions options_;
  RingAgreement agreement_;
  RingOperation operation_;
  LinkSurvey survey_;
  StateCourier states_;
  StallWatch stalls_;
  EpochRenewal renewal_;
  Interruptions interruptions_;
  bool wanted_ = false;               ///< The first epoch was asked for.
  std::uint64_t begun_in_epoch_ = 0;  ///< Operations.
  std::uint64_t epoch_key_ = 0;       ///< Of the one we are in; 0: none.
  RingOperation::Vector result_;      ///< To be applied by the next job,
  std::uint64_t result_samples_ = 0;  ///< the mean of so many samples,
  std::uint64_t result_steps_ = 0;    ///< which ends so many local steps; 0: it is a gradient.
  std::vector<PeerId> candidates_;
  double steps_per_second_ = 0;
  RingCounts counts_;
};

}  // namespace gv
