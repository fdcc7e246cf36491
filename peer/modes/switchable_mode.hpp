// Runs one mode at a time, and switches to another mode together with all peers of a swarm.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "peer/modes/modes.hpp"
#include "peer/modes/switch_council.hpp"

namespace gv {

/// The number of low bits in a revision's number that count the algorithms of one mode. The higher
/// bits count switches of the mode.
inline constexpr int algorithm_bits = 16;

/// To switch, all peers agree by ballot on another mode and a step. Each peer finishes its work
/// under way, one collective averages all models, and all continue from the mean in the new mode at
/// that step. A peer that comes later, or was away, also learns of the switch by a ballot, and
/// joins the new mode like any newcomer.
///
/// All messages within a mode go to that mode. Each mode's ballots have a separate range of
/// numbers, so late messages of the previous mode are dropped. Pure.
class SwitchableMode final : public Mode {
 public:
  /// `session` distinguishes this process from earlier ones. `signer` has the key of `self` and
  /// must outlive the mode.
  SwitchableMode(PeerId self, std::uint64_t session, NodeOptions options, const Signer& signer,
                 const Rng& draws);

  void start(Time now, std::uint64_t step, bool joins_others) override;
  void receive(Time now, PeerId from, const Message& message, Membership& members,
               Effects& out) override;
  void receive_block(Time now, PeerId from, const Block& block, Effects& out) override;
  std::span<std::byte> place(PeerId from, const TransferId& id, std::uint64_t offset,
                             std::size_t bytes) override;
  void lane_lost(Time now, PeerId peer, Effects& out) override;
  void lane_refused(Time now, PeerId peer, Effects& out) override;
  void peer_gone(Time now, PeerId peer, Effects& out) override;
  void refuse(Time now, PeerId peer, Effects& out) override;
  void gradient_ready(Time now, std::uint64_t job, std::size_t begin, Effects& out) override;
  void complete(Time now, JobDone done, Membership& members, Effects& out) override;
  void tick(Time now, Membership& members, Effects& out, std::vector<Job>& jobs) override;
  Time deadline() const override;
  void woke_up(Time now, Membership& members, Effects& out) override;
  Problems switch_to(Time now, std::string_view settings) override;
  const SettingsRevision* revision() const override;
  std::uint64_t revision_heard() const override;
  void leave(Time now, Effects& out) override;

  bool should_busy_poll() const override { return !meeting_ && mode().should_busy_poll(); }
  std::optional<HostPlace> host_place() const override { return mode().host_place(); }
  bool is_settling() const override { return mode().is_settling(); }
  bool is_idle() const override { return !target_ && mode().is_idle(); }
  /// The mode's course. If our model cannot enter the mean of a switch, returns the failed course
  /// of the mean instead, so that this peer leaves.
  const Course& course() const override {
    return meeting_ && meeting_->course().has_failed() ? meeting_->course() : mode().course();
  }
  const Course& training() const override { return mode().training(); }
  Phase phase() const override { return mode().phase(); }
  std::uint64_t step() const override { return mode().step(); }
  double steps_per_second() const override { return mode().steps_per_second(); }
  std::optional<Trial> trial() const override { return mode().trial(); }
  const SwarmWork* swarm_work() const override { return mode().swarm_work(); }
  const Generations* generations() const override { return mode().generations(); }
  ModeReport report(const Membership& members) const override;

  /// The present mode by its concrete type.
  const AnyMode& as() const { return made_.as; }
  ModeKind kind() const { return kind_; }
  /// The revision by which the present mode was made; number 0 means the config's own mode.
  const SettingsRevision& present() const { return present_; }
  /// The options with which the present mode was made.
  NodeOptions options() const { return present_.number > 0 ? options_after(kept_) : options_; }
  /// True from the decision until the new mode has begun.
  bool is_switching() const { return target_.has_value(); }
  /// True while the mode gets no ticks, because a decision or a new mode is awaited.
  bool stands_still() const {
    return target_ || (council_.is_deciding() && kind_ != ModeKind::gossip);
  }

 private:
  const Mode& mode() const { return *made_.mode; }
  Mode& active();
  bool takes_part() const;
  void receive_in_ballot(Time now, PeerId from, const Message& message, std::uint64_t number,
                         Membership& members, Effects& out);
  SwitchCouncil::Standing standing() const;
  void follow_council(Time now, const Membership& members, Effects& out);
  void decide(Time now, const SwitchCouncil::Decision& decision, Effects& out);
  void refuse_switch(const SwitchCouncil::Decision& decision, Effects& out);
  void go_on(Time now, Membership& members, Effects& out, std::vector<Job>& jobs);
  bool has_met() const;
  void end_meeting();
  bool refuse_request(PeerId from, const Message& message, const Membership& members,
                      Effects& out) const;
  std::uint64_t next_session();
  void begin_meeting(Time now, Membership& members, Effects& out);
  void begin_mode(Time now, Membership& members, Effects& out);
  void show_proofs(Time now, Mode& to, Membership& members, Effects& out);
  NodeOptions options_after(const SettingsRevision& revision) const;

  PeerId self_;
  std::uint64_t session_;
  std::uint64_t sessions_ = 0;  ///< Means and modes made so far. Each has its own session.
  NodeOptions options_;         ///< Options of the config's own mode.
  const Signer* signer_;
  Rng draws_;
  SettingsRevision present_;  ///< The present revision. Its number counts only switches of the
                              ///< mode.
  SettingsRevision kept_;     ///< The present revision, with the number that a run folder keeps.
  std::uint64_t since_ = 0;   ///< The step at which the present mode began.
  std::optional<std::uint64_t> replica_at_;  ///< The replica's step after its newest job.
  MadeMode made_;
  ModeKind kind_;
  SwitchCouncil council_;
  std::optional<std::string> asked_;  ///< Settings that the next tick puts to the council.
  std::optional<SwitchCouncil::Decision> target_;
  std::unique_ptr<Mode> meeting_;  ///< Computes the mean with which the new mode begins.
  bool is_meeting_void_ = false;   ///< True if the meeting is abandoned. It then ends with its job.
  std::uint64_t refused_ = 0;      ///< The number of the newest refused switch.
  std::string refusal_;            ///< Why the newest refused switch was refused.
  /// Key of the newest ballot that we promised in the last meeting that ended here; 0 if there is
  /// none.
  std::uint64_t ended_ballot_ = 0;
};

}  // namespace gv
