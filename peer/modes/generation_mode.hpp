// What all ways of working in generations have alike: who is in one, what ends it, and what
// follows.
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
/// and from where all go on, whoever is lost ends the generation for all, and another ballot
/// follows. What an operation is, and what a peer needs before it can make one, the modes say.
class GenerationMode : public Mode {
 public:
  void receive(Time now, PeerId from, const Message& message, Membership& members,
               Effects& out) final;
  void peer_gone(Time now, PeerId peer, Effects& out) final;
  void tick(Time now, Membership& members, Effects& out, std::vector<Job>& jobs) final;
  Time deadline() const final;

  /// What others lack without us is not with them yet.
  bool is_settling() const override { return handing_over_; }

  std::uint64_t step() const override { return agreement_.version().step; }
  double steps_per_second() const override { return steps_per_second_; }

  const Agreement& agreement() const { return agreement_; }
  /// The newest one that is over; none if nobody is in it.
  const Recovery& last_recovery() const { return recoveries_.last(); }

 protected:
  /// `session` tells this process from earlier ones of the same peer.
  GenerationMode(PeerId self, std::uint64_t session, const CourseOptions& course,
                 const Agreement::Options& agreement);

  // ---- What the modes say ----

  /// What a generation contains.
  virtual const GenerationPlanner& planner() const = 0;
  /// Those in the newest generation, by rank.
  virtual const std::vector<PeerId>& order() const = 0;
  /// We are in this generation now.
  virtual void begin_generation(Time now, const Generation& generation, Effects& out) = 0;
  /// The generation is over; everything under way in it is given up.
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
  /// The generation could end now without loss.
  virtual bool is_between_operations(Time now) const = 0;
  /// What a generation fixes follows from measured speeds, so a later one may be better.
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
  virtual void taken_over(PeerId, const StatusReply&) {}
  /// A word that has nothing to do with agreement. `generation` is null while standing still.
  virtual void receive_own(Time now, PeerId from, const Message& message,
                           const Generation* generation, Effects& out) = 0;

  // ---- For the modes ----

  void disturb(Time now, const std::vector<PeerId>& blamed, Effects& out);
  void end_generation(Time now, const std::vector<PeerId>& blamed, Effects& out);
  bool is_in_generation() const { return generation_key_ != 0; }
  /// Of late, smoothed; 0 before the first are done.
  double operation_seconds() const { return stragglers_.operation_seconds(); }
  /// An operation is made, which began at that step and was so many.
  void operation_done(Time now, std::uint64_t from_step, std::uint64_t steps, Effects& out);
  /// The generation ends when this operation is over.
  bool is_rebalance_due() const { return rebalance_due_; }
  /// We leave, and others take over what we have.
  bool is_handing_over() const { return handing_over_; }
  void end_handing_over() { handing_over_ = false; }
  /// With what we bring everybody's model would be lost. They go on without us.
  void become_unfit(std::uint64_t step, Effects& out);
  /// We cannot go on with the others, and leave.
  void become_stuck(Event why, Effects& out);

  Agreement agreement_;
  RecoveryLog recoveries_;
  std::vector<PeerId> candidates_;
  std::uint64_t generation_key_ = 0;  ///< Of the generation we are in; 0: none.
  std::uint64_t generations_ = 0;     ///< We took part in.
  std::uint64_t operations_ = 0;      ///< Finished by us.
  double steps_per_second_ = 0;

 private:
  void become_leaving(Time now, Effects& out) final;
  void hand_over(Time now, Effects& out);
  void set_candidates(Time now, Membership& members);
  void enter_generation(Time now, Effects& out);
  void leave_generation();
  void look_for_rebalance(Time now, Effects& out);
  void watch_for_stragglers(Time now, Effects& out);

  StragglerDetector stragglers_;
  RebalancePolicy rebalance_;
  bool wanted_ = false;  ///< The first generation was asked for.
  bool rebalance_due_ = false;
  bool handing_over_ = false;
  Time hand_over_until_ = never;
};

}  // namespace gv
