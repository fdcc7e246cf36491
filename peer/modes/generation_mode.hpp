// What modes with generations share: who is in one, what ends it, and what follows.
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

/// The course of a peer in generations. A ballot says which peers take part and from where they go
/// on. A lost peer ends the generation for all, and another ballot follows. The modes define what
/// an operation is (a collective, a round or a pipeline run) and what a peer needs before it can
/// begin one.
class GenerationMode : public Mode {
 public:
  void receive(Time now, PeerId from, const Message& message, Membership& members,
               Effects& out) final;
  void peer_gone(Time now, PeerId peer, Effects& out) final;
  void tick(Time now, Membership& members, Effects& out, std::vector<Job>& jobs) final;
  Time deadline() const final;

  /// We still hand over what other peers lack without us.
  bool is_settling() const override { return handing_over_; }

  std::uint64_t step() const override { return agreement_.version().step; }
  double steps_per_second() const override { return steps_per_second_; }

  const Agreement& agreement() const { return agreement_; }
  /// The newest recovery that is over; `lost` is empty if there was none.
  const Recovery& last_recovery() const { return recoveries_.last(); }

 protected:
  /// `session` tells this process from earlier ones of the same peer.
  GenerationMode(PeerId self, std::uint64_t session, const CourseOptions& course,
                 const Agreement::Options& agreement);

  // ---- Defined by the modes ----

  /// Decides what a generation contains.
  virtual const GenerationPlanner& planner() const = 0;
  /// Peers of the newest generation, by rank.
  virtual const std::vector<PeerId>& order() const = 0;
  /// We are in this generation now.
  virtual void begin_generation(Time now, const Generation& generation, Effects& out) = 0;
  /// The generation is over; gives up everything under way in it.
  virtual void abandon() = 0;
  /// We have all that operations need.
  virtual bool is_ready() const = 0;
  /// We have given our part and wait for other peers.
  virtual bool is_waiting() const = 0;
  /// Other peers wait for what we compute or fetch.
  virtual bool is_busy() const = 0;
  /// Changes whenever something arrives.
  virtual std::uint64_t progress() const = 0;
  /// Asks again for missing state. Returns a source that has stopped sending.
  virtual std::optional<PeerId> silent_source(Time now, Effects& out) = 0;
  /// The generation could end now without loss.
  virtual bool is_between_operations(Time now) const = 0;
  /// A generation is planned from measured speeds, so a later one may be better.
  virtual bool is_planned() const { return true; }
  /// Goes on with operations as far as possible.
  virtual void go_on(Time now, Effects& out) = 0;
  virtual void next_job(Time now, std::vector<Job>& jobs, Effects& out) = 0;
  virtual Time own_deadline() const = 0;
  virtual void candidates_changed(const Membership&) {}
  /// Other peers need something that only we have to go on from our version. We hand it over before
  /// we leave.
  virtual bool has_to_hand_over() const { return false; }
  /// The peer has everything that we handed over to it.
  virtual void taken_over(PeerId, const StatusReply&) {}
  /// A message that does not concern agreement. `generation` is null between generations.
  virtual void receive_own(Time now, PeerId from, const Message& message,
                           const Generation* generation, Effects& out) = 0;

  // ---- Used by the modes ----

  void disturb(Time now, const std::vector<PeerId>& blamed, Effects& out);
  void end_generation(Time now, const std::vector<PeerId>& blamed, Effects& out);
  bool is_in_generation() const { return generation_key_ != 0; }
  /// Recent seconds of an operation, smoothed; 0 before the first are done.
  double operation_seconds() const { return stragglers_.operation_seconds(); }
  /// An operation of `steps` steps, which began at `from_step`, is done.
  void operation_done(Time now, std::uint64_t from_step, std::uint64_t steps, Effects& out);
  /// The generation ends when this operation is over.
  bool is_rebalance_due() const { return rebalance_due_; }
  /// We leave, and other peers take over what we have.
  bool is_handing_over() const { return handing_over_; }
  void end_handing_over() { handing_over_ = false; }
  /// Our contribution would destroy every peer's model. The others go on without us.
  void become_unfit(std::uint64_t step, Effects& out);
  /// We cannot go on with the others, and leave.
  void become_stuck(Fact why, Effects& out);

  Agreement agreement_;
  RecoveryLog recoveries_;
  std::vector<PeerId> candidates_;
  std::uint64_t generation_key_ = 0;  ///< Key of the generation we are in; 0: none.
  std::uint64_t generations_ = 0;     ///< Those we took part in.
  std::uint64_t operations_ = 0;      ///< Operations finished by us.
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
  bool wanted_ = false;  ///< We have asked for the first generation.
  bool rebalance_due_ = false;
  bool handing_over_ = false;
  Time hand_over_until_ = never;
};

}  // namespace gv
