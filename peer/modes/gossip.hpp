// Mode `gossip`: local steps at each peer's own pace, and exchanges between pairs of peers.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "consensus/gossip/pair_exchange.hpp"
#include "consensus/membership/membership.hpp"
#include "consensus/message/effects.hpp"
#include "consensus/transfer/model_review.hpp"
#include "consensus/transfer/state_download.hpp"
#include "consensus/transfer/state_server.hpp"
#include "peer/modes/exchange_trigger.hpp"
#include "peer/modes/finale.hpp"
#include "peer/modes/gossip_options.hpp"
#include "peer/modes/mode.hpp"
#include "peer/modes/population.hpp"

namespace gv {

/// Totals since this peer started.
struct GossipCounts {
  std::uint64_t jobs = 0;
  std::uint64_t forces_applied = 0;
  /// Forces that were dropped together with the model for which they were computed.
  std::uint64_t forces_dropped = 0;
  std::uint64_t triggers = 0;  ///< Times that an exchange was due.
  /// Exchanges that were due while alpha was 0, while we were alone, or in a round whose pairing
  /// gave us no partner.
  std::uint64_t idle_rounds = 0;
  /// Exchanges that were due but did not begin, because our partner was not usable, or because we
  /// were busy or had no snapshot.
  std::uint64_t missed_rounds = 0;
  std::uint64_t models_fetched = 0;
};

/// Makes local steps at our own pace, and one exchange with another peer after every `period_steps`
/// steps. If the swarm has a common budget, all peers end together with the mean of their models
/// (Finale).
class GossipMode final : public Mode {
 public:
  /// `signer` has the key of `self` and must outlive the mode.
  GossipMode(PeerId self, std::uint64_t session, const CourseOptions& course, GossipOptions options,
             const Signer& signer, Rng rng);

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
  void tick(Time now, Membership& members, Effects& out, std::vector<Job>& jobs) override;
  void complete(Time now, JobDone done, Membership& members, Effects& out) override;
  Time deadline() const override;
  void leave(Time now, Effects& out) override;
  void hold_end(bool held) override { course_.hold_end(held); }
  void wind_down(Time now, Effects& out) override;
  bool has_wound_down() const override { return is_still() && course_.has_parted(); }
  /// From now on and for a few seconds, downloads a model if ours is too far behind.
  void woke_up(Time now, Membership& members, Effects& out) override;
  bool is_settling() const override { return exchange_.in_flight(); }
  bool is_idle() const override {
    return finale_.mean() != nullptr ? finale_.mean()->is_idle() : forces_.empty();
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
  std::optional<Trial> trial() const override { return population_.trial(); }
  std::uint64_t step() const override { return step_; }
  double steps_per_second() const override { return steps_per_second_; }

  const GossipCounts& counts() const { return counts_; }
  const PairExchange& exchange() const { return exchange_; }
  const Population& population() const { return population_; }
  /// Number of entries kept for exchanges and downloads; at most held_max().
  std::size_t held() const {
    return exchange_.held() + fetch_.held() + server_.held() + review_.held() + sources_.size() +
           sketched_.size() + tried_.size() + (fetched_ ? 1 : 0);
  }
  /// The largest possible value of held() if we have ever met `others` other peers.
  static std::size_t held_max(std::size_t others);

 private:
  void collect();
  void receive_about_state(Time now, PeerId from, const Message& message, Effects& out);
  StateServer::State own_state();
  void fetch_from(Time now, std::vector<PeerId> sources, Effects& out);
  bool is_fetching() const;
  void give_up_download();
  std::vector<PeerId> witnesses_of(PeerId source, const Membership& members);
  void review_download(Time now, const Membership& members, Effects& out);
  void answer(Time now, PeerId from, const SketchRequest& request, Effects& out);
  void next_job(Time now, Membership& members, Effects& out, std::vector<Job>& jobs);
  bool may_adopt();
  bool adopt(Time now, Job& job, Membership& members, Effects& out);
  bool tick_finale(Time now, Membership& members, Effects& out, std::vector<Job>& jobs);
  /// True if no job and no exchange is under way, and no result waits for the next job.
  bool is_still() const {
    return course_.jobs_under_way() == 0 && !exchange_.in_flight() && forces_.empty() &&
           !is_fetching();
  }
  /// True if we are waiting for work to settle, at most until settle_until_.
  bool settles() const {
    if (!course_.is_leaving()) return finale_.is_ending() && exchange_.in_flight();
    return course_.jobs_under_way() == 0 && !course_.is_last_job_asked();
  }
  void add_steps(Time now, std::uint64_t steps, Job& job);
  std::uint64_t leased_steps(Time now, std::uint64_t steps);
  bool rests(const Membership& members) const;
  std::uint64_t followed_steps(const Membership& members) const;
  void look_after_leases(Time now, Membership& members, Effects& out);
  void begin_exchange(Time now, Membership& members, Effects& out);
  std::optional<PeerId> partner_to_copy(const View& view);
  void look_for_better(Time now, Membership& members, Effects& out);
  bool has_model(const Member* member) const;
  bool is_usable(const Member* member) const;
  std::optional<PeerId> uniform_choice(const View& view, Rng& draws) const;
  void tell_if_topology_fits(const View& view, Effects& out);
  void catch_up(Time now, const Membership& members, Effects& out);
  bool should_fetch(const Membership& members) const;
  std::vector<PeerId> take_candidates(const Membership& members);
  void add_sources(Time now, const Membership& members, Effects& out);
  float alpha() const;
  std::uint64_t period() const;
  std::uint64_t job_steps(Time now);

  PeerId self_;
  Course course_;
  GossipOptions options_;
  Rng rng_;
  std::uint64_t session_;
  PairExchange exchange_;
  StateDownload fetch_;
  /// The values of the download under way, as far as they have arrived.
  std::vector<float> fetch_values_;
  std::vector<PeerId> sources_;  ///< Sources of the download whose models we have not refused.
  /// Peers that we have asked for a model since we joined or woke up. If all of them fail, we first
  /// ask peers that we have met since, and only then train on without a download.
  std::set<PeerId> tried_;
  Time watches_lag_until_{};  ///< Until this time, we download a model if ours is too far behind.
  TransferNumbers reviews_;
  ModelReview review_;
  Rng review_draws_;
  std::optional<DownloadedModel> doubtful_;  ///< A downloaded model whose review is not finished.
  /// Our model from before we joined, with which a download is compared.
  SnapshotPtr first_model_;
  std::map<PeerId, Time> sketched_;  ///< When we last sent a sketch to each peer.
  StateServer server_;
  std::uint64_t states_served_ = 0;
  /// What own_state() has copied since the snapshot was set. Null if it has not.
  std::shared_ptr<const std::vector<float>> whole_state_;
  Population population_;
  Finale finale_;

  bool waits_for_mean_ = false;  ///< True if we are a newcomer that waits for the mean that the
                                 ///< others are about to make.
  /// By this time all peers that we can meet at our start have said hello. Until then, the review
  /// of a download waits for a witness, if there can be one.
  Time meets_until_{};
  bool has_snapshot_ = false;
  Time settle_until_{};
  std::uint64_t step_ = 0;
  Time offers_chunks_at_{};  ///< The earliest time at which an idle peer offers its next exchange.
  ExchangeTrigger trigger_;
  double steps_per_second_ = 0;
  /// The distance between the two models in the last exchange, before the force was applied. Used
  /// as a sample of the spread.
  double last_distance_ = 0;
  /// A peer that asked us while we were busy, and that we choose as our next partner. Used only
  /// with uniform pairing, in which a peer chooses its own partner.
  std::optional<PeerId> owed_;
  bool topology_fits_ = true;  ///< True if the topology suited the live peers in the last round.
  std::vector<Force> forces_;  ///< Forces from finished exchanges, which the next job adds.
  std::optional<DownloadedModel> fetched_;  ///< A downloaded model that the next job adopts.
  GossipCounts counts_;
};

}  // namespace gv
