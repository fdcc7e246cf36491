// What all ways of working in epochs have alike: who is in one, what ends it, and what follows.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "consensus/generation/agreement.hpp"
#include "peer/modes/mode.hpp"
#include "peer/modes/rebalance_policy.hpp"
#include "peer/modes/recovery_log.hpp"
#include "peer/modes/straggler_detector.hpp"

namespace gv {

/// The course of a peer that makes operations together with others: a ballot says who takes part
/// and from where all go on, whoever is lost ends the epoch for all, and another ballot follows.
/// What an operation is, and what a peer needs before it can make one, the modes say.
class EpochMode : public Mode {
 public:
  void receive(Time now, PeerId from, const Message& message, Membership& members,
               Effects& out) final;
  void peer_gone(Time now, PeerId peer, Effects& out) final;
  void tick(Time now, Membership& members, Effects& out, std::vector<Job>& jobs) final;
  Time deadline() const final;

  /// What others lack without us is not with them yet.
  bool is_settling() const override { return handing_over_; }

  std::uint64_t step() const override { return agreement_.standing().operation; }
  double steps_per_second() const override { return steps_per_second_; }

  const RingAgreement& agreement() const { return agreement_; }
  /// The newest one that is over; none if nobody is in it.
  const RingInterruption& last_interruption() const { return interruptions_.last(); }

 protected:
  /// `session` tells this process from earlier ones of the same peer.
  EpochMode(PeerId self, std::uint64_t session, const CourseOptions& course,
            const RingAgreement::Options& agreement);

  // ---- What the modes say ----

  /// What an epoch contains.
  virtual const GenerationPlanner& planner() const = 0;
  /// Those in the newest epoch, by rank.
  virtual const std::vector<PeerId>& order() const = 0;
  /// We are in this epoch now.
  virtual void begin_epoch(Time now, const Epoch& epoch, Effects& out) = 0;
  /// The epoch is over; everything under way in it is given up.
  virtual void abandon() = 0;
  /// We have all that operations need.
  virtual bool is_ready() const = 0;
  /// Our part is given, and something of others is not there.
  virtual bool is_waiting() const = 0;
  /// Others wait for what we compute or fetch.
  virtual bool is_busy() const = 0;
  /// Changes while something comes.
  virtual std::uint64_t progress() const = 0;
  /// Asks again for what is missing; a source that sends nothing any more.
  virtual std::optional<PeerId> silent_source(Time now, Effects& out) = 0;
  /// The epoch could end now without loss.
  virtual bool is_between_operations(Time now) const = 0;
  /// What an epoch fixes follows from measured speeds, so a later one may be better.
  virtual bool is_planned() const { return true; }
  /// Goes on with operations as far as it can.
  virtual void go_on(Time now, Effects& out) = 0;
  virtual void next_job(Time now, std::vector<Job>& jobs, Effects& out) = 0;
  virtual Time own_deadline() const = 0;
  virtual void candidates_changed(const Membership&) {}
  /// Others cannot go on from where we stand without what we alone have, so that we hand it over
  /// before we leave.
  virtual bool has_to_hand_over() const { return false; }
  /// The peer has all that we handed over.
  virtual void taken_over(PeerId, const Here&) {}
  /// A word that has nothing to do with agreement. `epoch` is null while standing still.
  virtual void receive_own(Time now, PeerId from, const Message& message, const Epoch* epoch,
                           Effects& out) = 0;

  // ---- For the modes ----

  void disturb(Time now, const std::vector<PeerId>& blamed, Effects& out);
  void end_epoch(Time now, const std::vector<PeerId>& blamed, Effects& out);
  bool is_in_epoch() const { return epoch_key_ != 0; }
  /// Of late, smoothed; 0 before the first are done.
  double operation_seconds() const { return stalls_.operation_seconds(); }
  /// An operation is made, which began at that step and was so many.
  void operation_done(Time now, std::uint64_t from_step, std::uint64_t steps, Effects& out);
  /// The epoch ends when this operation is over.
  bool is_renewal_due() const { return renewal_due_; }
  /// We leave, and others take over what we have.
  bool is_handing_over() const { return handing_over_; }
  void end_handing_over() { handing_over_ = false; }
  /// With what we bring everybody's model would be lost. They go on without us.
  void become_unfit(std::uint64_t step, Effects& out);
  /// We cannot go on with the others, and leave.
  void become_stuck(Event why, Effects& out);

  RingAgreement agreement_;
  Interruptions interruptions_;
  std::vector<PeerId> candidates_;
  std::uint64_t epoch_key_ = 0;   ///< Of the epoch we are in; 0: none.
  std::uint64_t epochs_ = 0;      ///< We took part in.
  std::uint64_t operations_ = 0;  ///< Finished by us.
  double steps_per_second_ = 0;

 private:
  void become_leaving(Time now, Effects& out) final;
  void hand_over(Time now, Effects& out);
  void set_candidates(Time now, Membership& members);
  void enter_epoch(Time now, Effects& out);
  void leave_epoch();
  void look_for_renewal(Time now, Effects& out);
  void watch_for_stalls(Time now, Effects& out);

  StallWatch stalls_;
  EpochRenewal renewal_;
  bool wanted_ = false;  ///< The first epoch was asked for.
  bool renewal_due_ = false;
  bool handing_over_ = false;
  Time hand_over_until_ = never;
};

}  // namespace gv
