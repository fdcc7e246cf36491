// Mode `mixing`: local steps, then a round of mixing with the neighbours in a topology.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "consensus/mixing/round_plan.hpp"
#include "peer/modes/finale.hpp"
#include "peer/modes/generations.hpp"
#include "peer/modes/mixing_options.hpp"
#include "peer/modes/mode.hpp"
#include "peer/modes/replica_planner.hpp"
#include "peer/modes/round_inbox.hpp"
#include "peer/modes/state_transfer.hpp"

namespace gv {

/// Totals since this peer started.
struct MixingCounts {
  std::uint64_t rounds = 0;       ///< Rounds that we have mixed.
  std::uint64_t generations = 0;  ///< Generations that we have entered.
  std::uint64_t losses = 0;  ///< Times that we continued after losing peers. The loss of several
                             ///< peers at once counts once.
  std::uint64_t states_sent = 0;
  std::uint64_t states_adopted = 0;
  /// Messages made for neighbours, including superseded ones that a lane dropped.
  std::uint64_t messages_sent = 0;
  std::uint64_t bytes_sent = 0;        ///< Bytes of the messages in `messages_sent`.
  std::uint64_t messages_refused = 0;  ///< Messages from other peers that could not be read.
  /// Messages dropped because their senders were too far ahead of us.
  std::uint64_t messages_dropped = 0;
};

/// Trains in rounds, with exchanges only between neighbours. In each round a peer makes local
/// steps, sends a message to the neighbours that the rule's plan names, and mixes the messages of
/// its in-neighbours. Every peer has its own model. Ballots decide which peers take part and give
/// each peer a rank, so all compute the same plan. If a peer is lost, the generation ends for all.
/// The next generation begins with the current models, and the round that was under way is not
/// mixed. Within a generation peers wait only for their neighbours. If rule.staleness is set, they
/// do not wait for their neighbours' newest rounds. If peers never wait, the steps of a round that
/// a generation did not finish count towards the first round of the next generation. So a slow peer
/// finishes rounds even in short generations. A resting centre makes a round whenever messages have
/// arrived. If the swarm has a common budget, all peers end together with the mean of their models
/// (Finale).
class MixingMode final : public Mode {
 public:
  /// `session` distinguishes this process from earlier ones of the same peer.
  MixingMode(PeerId self, std::uint64_t session, const CourseOptions& course,
             const MixingOptions& options, const Signer& signer, const Rng& draws);

  void start(Time now, std::uint64_t step, bool joins_others) override;
  void receive(Time now, PeerId from, const Message& message, Membership& members,
               Effects& out) override;
  void receive_block(Time now, PeerId from, const Block& block, Effects& out) override;
  void lane_lost(Time now, PeerId peer, Effects& out) override;
  void lane_refused(Time now, PeerId peer, Effects& out) override;
  void peer_gone(Time now, PeerId peer, Effects& out) override;
  void refuse(Time now, PeerId peer, Effects& out) override;
  void gradient_ready(Time now, std::uint64_t job, std::size_t begin, Effects& out) override;
  void complete(Time now, JobDone done, Membership& members, Effects& out) override;
  void tick(Time now, Membership& members, Effects& out, std::vector<Job>& jobs) override;
  std::span<std::byte> place(PeerId from, const TransferId& id, std::uint64_t offset,
                             std::size_t bytes) override;
  Time deadline() const override;
  Problems switch_to(Time now, std::string_view settings) override;
  const SettingsRevision* revision() const override { return &options_.revision; }
  std::uint64_t revision_heard() const override {
    return generations_.agreement().revision().number;
  }
  void leave(Time now, Effects& out) override;
  void wind_down(Time now, Effects& out) override;
  bool has_wound_down() const override { return !ends_ && course_.has_parted(); }

  bool is_idle() const override {
    return finale_.mean() != nullptr ? finale_.mean()->is_idle() : !ends_;
  }
  /// Our own course or, once the mean has begun, the mean's course, which decides when we leave.
  const Course& course() const override {
    return finale_.mean() != nullptr ? finale_.mean()->course() : course_;
  }
  const Course& training() const override { return course_; }
  Phase phase() const override { return course_.phase(); }
  const SwarmWork* swarm_work() const override {
    return finale_.is_on() ? &finale_.work() : nullptr;
  }
  ModeReport report(const Membership& members) const override;
  const Generations* generations() const override { return &generations_; }
  std::uint64_t step() const override { return generations_.step(); }
  double steps_per_second() const override { return generations_.steps_per_second(); }

  MixingCounts counts() const;
  /// The current options. A settings revision changes the rule and the period.
  const MixingOptions& options() const { return options_; }
  /// The peers of the newest generation, by rank.
  const std::vector<PeerId>& ranks() const { return order_; }
  /// The host of each peer in ranks(), as an index (see RoundPlan).
  const std::vector<std::size_t>& hosts() const { return hosts_; }
  /// The in-neighbours and the out-neighbours in the round under way.
  std::vector<PeerId> heard() const;
  std::vector<PeerId> out_neighbours() const;
  /// Number of messages kept (see RoundInbox::held).
  std::size_t held() const { return box_.held(); }

 private:
  void begin_generation(Time now, const Generation& generation, Effects& out);
  void abandon();
  void end_rounds(Time now, Effects& out);
  void disturb(Time now, const std::vector<PeerId>& blamed, Effects& out);
  void look_after_generation(Time now, Effects& out);
  void receive_own(Time now, PeerId from, const Message& message, Effects& out);
  void go_on(Time now, Effects& out);
  bool tick_finale(Time now, Membership& members, Effects& out, std::vector<Job>& jobs);
  void follow_budget(Time now);
  std::uint64_t samples_together() const;
  bool is_overtaken(const Job& job) const;
  void next_job(Time now, std::vector<Job>& jobs, Effects& out);
  void begin_round(Time now, Job& job);
  std::vector<std::string> details(const std::vector<std::string>& in,
                                   const std::vector<std::string>& out) const;
  void send(const MixOutbox& outbox, Effects& out);
  void serve(Effects& out);
  bool is_complete() const;
  void take_messages(std::uint64_t last, std::vector<MixMessage>& to);
  std::uint64_t steps_at(std::uint64_t step) const;
  std::uint64_t carried_steps() const;
  void go_by(const Generation& generation, Effects& out);
  Problems adopt(const SettingsRevision& revision);
  bool rests() const;
  bool serves() const;

  PeerId self_;
  Course course_;
  Generations generations_;
  ReplicaPlanner planner_;
  MixingOptions options_;
  StateTransfer states_;
  Finale finale_;
  bool waits_for_mean_ = false;  ///< True if we are a newcomer that waits for the mean that the
                                 ///< others are about to make.
  RoundInbox box_;
  std::vector<PeerId> order_;  ///< The peers of the newest generation, by rank.
  std::size_t rank_ = 0;
  std::vector<std::size_t> hosts_;  ///< Hosts by rank; empty if the topology ignores hosts.
  std::optional<RoundPlan> plan_;
  std::optional<MixPlace> place_;  ///< Our rank and peers, until a job passes them to the mixer.
  bool told_ = false;      ///< True if a job has received our rank in the newest generation.
  bool switches_ = false;  ///< True if the next job passes a new rule to the mixer.
  std::uint64_t ruled_since_ = 0;  ///< The step from which the newest settings revision applies.
  bool gives_state_ = false;       ///< True if peers download our state in this generation.
  VectorPool::Vector state_;       ///< A copy of our state, kept until the generation ends.
  std::uint64_t round_ = 0;        ///< The next round, or the one under way.
  bool sent_ = false;              ///< True if the messages of `round_` have been sent.
  std::uint64_t made_ = 0;         ///< Steps that our model has made since our last round ended.
  std::optional<std::uint64_t> ends_;  ///< The round that the next job mixes; empty if none.
  std::vector<MixMessage> arrived_;    ///< Messages that the next job mixes.
  /// Messages of the last generation that will not be mixed. The next job only uses them to update
  /// our copies of the neighbours' vectors.
  std::vector<MixMessage> left_over_;
  /// True if we never sent our messages of the last generation's unfinished round.
  bool unsent_ = false;
  std::uint64_t round_job_ = 0;  ///< The job that makes our messages; 0 if none.
  /// True if peers wait for each other under the rule with which the newest round began.
  bool is_job_in_step_ = false;
  std::shared_ptr<MixOutbox> outbox_;  ///< Receives the messages of `round_job_`.
  std::uint64_t served_ = 0;  ///< Messages that we, as a centre, have mixed in this generation.
  std::uint64_t followed_ =
      0;  ///< Steps that we, as a centre, have counted for the `served_` messages.
  MixingCounts counts_;
};

}  // namespace gv
