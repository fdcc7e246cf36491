// Rounds mode: local steps, then a round of mixing with the neighbours that a topology gives.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "peer/modes/generation_mode.hpp"
#include "peer/modes/mixing_options.hpp"
#include "peer/modes/replica_planner.hpp"
#include "peer/modes/round_inbox.hpp"
#include "peer/modes/state_transfer.hpp"

namespace gv {

/// Totals since the start.
struct MixingCounts {
  std::uint64_t rounds = 0;       ///< Mixed by us.
  std::uint64_t generations = 0;  ///< We took part in.
  std::uint64_t losses = 0;       ///< Times we went on without somebody; several at once are one.
  std::uint64_t states_sent = 0;
  std::uint64_t states_adopted = 0;
  std::uint64_t messages_sent = 0;     ///< Made for somebody; lanes leave out what is superseded.
  std::uint64_t bytes_sent = 0;        ///< In these.
  std::uint64_t messages_refused = 0;  ///< Of others, which could not be read.
};

/// Decentralised training in rounds: in each, a peer makes local steps, sends a message to those
/// whom the rule's plan names, and mixes what came from those it hears. Every peer has a model of
/// its own. Ballots say who takes part and give each a rank, so all compute the same plan; whoever
/// is lost ends the generation for all, and the next begins with the models as they are. A round
/// that was under way then is not mixed. Within a generation peers wait for their neighbours alone,
/// and with rule.staleness not for the last rounds of those.
class MixingMode final : public GenerationMode {
 public:
  /// `session` tells this process from earlier ones of the same peer.
  MixingMode(PeerId self, std::uint64_t session, const CourseOptions& course,
             const MixingOptions& options);

  void receive_block(Time now, PeerId from, const Block& block, Effects& out) override;
  void lane_lost(Time now, PeerId peer, Effects& out) override;
  void lane_refused(Time now, PeerId peer, Effects& out) override;
  void gradient_ready(Time now, std::uint64_t job, std::size_t begin, Effects& out) override;
  Problems switch_to(Time now, std::string_view settings) override;

  MixingCounts counts() const;
  /// As they are now: a settings revision changes the rule and the period.
  const MixingOptions& options() const { return options_; }
  /// The step from which on we go by the newest settings revision.
  std::uint64_t ruled_since() const { return ruled_since_; }
  /// Of the newest generation, by rank.
  const std::vector<PeerId>& ranks() const { return order_; }
  /// Whom we hear in the round under way, and who hears us.
  std::vector<PeerId> heard() const;
  std::vector<PeerId> out_neighbours() const;

 private:
  void begin_at(std::uint64_t step) override;
  void take(Time now, JobDone done, Membership& members, Effects& out) override;
  bool is_idle() const override { return !ends_; }
  const GenerationPlanner& planner() const override { return planner_; }
  const std::vector<PeerId>& order() const override { return order_; }
  void begin_generation(Time now, const Generation& generation, Effects& out) override;
  void abandon() override;
  bool is_ready() const override { return !states_.is_fetching(); }
  bool is_waiting() const override { return sent_; }
  bool is_busy() const override { return jobs_under_way_ > 0 || states_.is_fetching(); }
  std::uint64_t progress() const override { return box_.received(); }
  std::optional<PeerId> silent_source(Time now, Effects& out) override {
    return states_.tick(now, out);
  }
  bool is_between_operations(Time) const override { return !sent_; }
  bool is_planned() const override { return false; }
  void go_on(Time now, Effects& out) override;
  void next_job(Time now, std::vector<Job>& jobs, Effects& out) override;
  Time own_deadline() const override { return states_.deadline(); }
  void receive_own(Time now, PeerId from, const Message& message, const Generation* generation,
                   Effects& out) override;

  void send(const MixOutbox& outbox, Effects& out);
  void serve(Effects& out);
  bool is_complete() const;
  void append(std::vector<RoundInbox::Parcel> parcels, std::vector<MixParcel>& to) const;
  std::uint64_t steps_at(std::uint64_t step) const;
  void go_by(const Generation& generation, Effects& out);
  Problems adopt(const SettingsRevision& revision);
  bool rests() const;

  std::uint64_t session_;
  ReplicaPlanner planner_;
  MixingOptions options_;
  StateTransfer states_;
  RoundInbox box_;
  std::vector<PeerId> order_;  ///< Of the newest generation, by rank.
  std::size_t rank_ = 0;
  std::optional<RoundPlan> plan_;
  std::optional<MixPlace> place_;      ///< To be told by the next job.
  bool told_ = false;                  ///< It was, for the newest generation.
  bool switches_ = false;              ///< The next job is told of another rule,
  std::uint64_t ruled_since_ = 0;      ///< which we go by from that step on.
  bool gives_state_ = false;           ///< The next job copies the state for those who lack one,
  VectorPool::Vector state_;           ///< for whom it is kept as long as the generation lasts.
  std::uint64_t round_ = 0;            ///< The one that is next, or under way.
  bool sent_ = false;                  ///< Its messages are.
  std::optional<std::uint64_t> ends_;  ///< The next job mixes in this round,
  std::vector<MixParcel> arrived_;     ///< with these.
  std::vector<MixParcel> left_over_;  ///< Of a generation that is over, to be told by the next job;
  bool unsent_ = false;               ///< the last one's messages went to nobody.
  std::uint64_t round_job_ = 0;       ///< The job that makes messages; 0: none.
  std::shared_ptr<MixOutbox> outbox_;  ///< Where it puts them.
  MixingCounts counts_;
};

}  // namespace gv
