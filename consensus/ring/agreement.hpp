// Who works in lockstep from which model on: agreed without a leader, anew after every loss.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "consensus/base/time.hpp"
#include "consensus/effects.hpp"
#include "consensus/pipeline/stage_plan.hpp"
#include "consensus/ring/reduce_choice.hpp"

namespace gv {

/// What everybody in an epoch knows of it.
struct Epoch {
  EpochId id;
  std::vector<PeerId> order;          ///< Who takes part; the place is the rank.
  std::vector<PeerId> sources;        ///< For each, who sends it the state; itself if it has it.
  std::vector<std::uint32_t> shares;  ///< Samples each contributes to an operation.
  Standing standing;                  ///< All go on from here.
  ReduceAlgorithm algorithm = ReduceAlgorithm::ring;
  PeerId slowest_from{};          ///< Where the link begins that sums wait for.
  LinkReport slowest;             ///< That link; of 0 bytes a second if none was measured.
  std::vector<StageDuty> duties;  ///< In a pipeline: who carries which stage.
  Ruling ruling;                  ///< All go by this one.

  /// Names the epoch in pieces and words.
  std::uint64_t key() const { return key_of(id); }
  bool contains(PeerId peer) const;
};

/// Where a replica stands after one more operation, of so many samples and optimiser steps, in an
/// epoch of that name. Whoever computes it alike has made the same steps from the same model.
Standing after_operation(Standing standing, std::uint64_t epoch_key, std::uint64_t samples,
                         std::uint64_t steps = 1);

/// Ballots by which live peers agree on the next epoch. Whoever answers a proposal stands still
/// until that ballot or a later one is decided, so nobody can finish an operation that the new
/// epoch does not know of. The peer of the smallest id proposes; if it does not, the next does
/// after a while. Those who do not answer in time are left out and join a later epoch. Whoever
/// leaves answers once more, so that others are sent what it has. Pure.
class RingAgreement {
 public:
  struct Options {
    Duration patience = std::chrono::milliseconds(300);  ///< For answers, until they are measured.
    Duration patience_max = std::chrono::seconds(5);
    std::uint32_t batch = 1;                   ///< Samples of an operation for each who takes part.
    std::uint32_t batch_max = 1;               ///< Samples one of them can compute at most.
    std::size_t elements = 0;                  ///< Of the vectors that are summed.
    std::optional<ReduceAlgorithm> algorithm;  ///< Empty: the one predicted to be the fastest.
    /// If not 0, peers have models of their own: whoever is no more operations than this behind the
    /// newest standing goes on from what it has.
    std::uint64_t own_models_within = 0;
    /// In a pipeline: what a micro-batch takes in each stage, relative to the others. Whoever takes
    /// part then carries stages, and may lack the others'.
    std::vector<double> stage_seconds;
    StagePlanOptions plan;
  };

  /// `session` differs from that of every earlier process of this peer, so that no ballot of one is
  /// taken for one of another.
  RingAgreement(PeerId self, std::uint64_t session, Options options);

  /// Where our replica stands; not while standing still.
  void set_standing(const Standing& standing) { standing_ = standing; }
  const Standing& standing() const { return standing_; }
  /// Samples a second that we compute, for shares; 0 = not known yet.
  void set_speed(double samples_per_second) { speed_ = static_cast<float>(samples_per_second); }
  /// What we have measured of links from us, at most `link_reports_max`.
  void set_links(std::vector<LinkReport> links) { links_ = std::move(links); }
  /// Of which stages of a pipeline we have the state, at most `stage_claims_max`.
  void set_claims(std::vector<StageClaim> claims) { claims_ = std::move(claims); }
  const std::vector<StageClaim>& claims() const { return claims_; }
  /// In a pipeline: we take no part any more, and hand over what we claim.
  void set_leaving() { leaving_ = true; }
  /// The epoch that began without us, who leave, and whose duties may name us as a source; null
  /// before that is decided.
  const Epoch* farewell() const { return farewell_ ? &*farewell_ : nullptr; }
  /// What all are to go by from the next epoch on, unless somebody knows of a newer one.
  void set_ruling(Ruling ruling) { ruling_ = std::max(ruling_, std::move(ruling)); }
  /// The newest we have heard of. The epoch under way may not know it.
  const Ruling& ruling() const { return ruling_; }
  /// How long an operation takes of late; 0 = not known yet.
  void set_operation_seconds(double seconds) { operation_seconds_ = seconds; }
  /// What is assumed of where we all are.
  void set_site(const ReduceSite& site) { site_ = site; }

  /// Who could take part now, ourselves included, sorted.
  void set_candidates(Time now, std::vector<PeerId> candidates);

  /// Ends the epoch for all: something is wrong with it. `blamed`, maybe nobody, are not waited
  /// for long, by nobody who hears of it; while no epoch runs that is all that is told.
  void disturb(Time now, const std::vector<PeerId>& blamed, Effects& out);

  /// A sign of life: the peer is waited for again.
  void heard(PeerId peer) { blamed_.erase(peer); }
  bool is_blamed(PeerId peer) const { return blamed_.contains(peer); }

  /// Handles Propose, Confirm, Overtaken, Start and Halt.
  void receive(Time now, PeerId from, const Message& message, Effects& out);

  void tick(Time now, Effects& out);
  Time deadline() const;

  /// Null while standing still. Another key than before means another epoch.
  const Epoch* epoch() const { return epoch_ ? &*epoch_ : nullptr; }
  /// The newest ballot we answered or began.
  const EpochId& promised() const { return promised_; }
  std::uint64_t ballots() const { return ballots_; }

  /// How long an answer may take: follows what is measured.
  Duration patience() const;

 private:
  struct Answer {
    Standing standing;
    float speed = 0;
    std::vector<LinkReport> links;
    std::vector<StageClaim> claims;
    bool leaves = false;
    Ruling ruling;
  };

  void stand_still(Time now);
  void propose(Time now, Effects& out);
  void decide(Time now, Effects& out);
  ReduceChoice choice() const;
  std::optional<Start> lockstep() const;
  bool is_near(const Standing& standing, const Standing& newest) const;
  std::optional<Start> pipeline() const;
  bool do_all_leave() const;
  void become_left_out(Epoch epoch);
  bool can_begin(const Start& start) const;
  std::vector<std::uint32_t> shares(const std::vector<PeerId>& order) const;
  void begin(Time now, Epoch epoch, Effects& out);
  void receive(Time now, PeerId from, const Propose& message, Effects& out);
  void receive(Time now, PeerId from, const Confirm& message, Effects& out);
  void receive(Time now, PeerId from, const Overtaken& message, Effects& out);
  void receive(Time now, PeerId from, const Start& message, Effects& out);
  void receive(Time now, PeerId from, const Halt& message, Effects& out);
  void measure(Time now);
  void confirm(Effects& out) const;
  void ask(PeerId peer, Effects& out) const;
  Duration wait_for_answers() const;
  Time own_turn() const;

  PeerId self_;
  std::uint64_t session_;
  Options options_;
  Standing standing_;
  float speed_ = 0;
  std::vector<LinkReport> links_;
  std::vector<StageClaim> claims_;
  double operation_seconds_ = 0;
  ReduceSite site_;
  std::vector<PeerId> candidates_;
  std::set<PeerId> blamed_;        ///< Silent when they should not have been.
  EpochId promised_;               ///< The newest ballot we answered; older ones are void.
  std::uint64_t newest_seen_ = 0;  ///< Counter of the latest ballot we have heard of.
  std::optional<Epoch> epoch_;
  Ruling ruling_;
  bool leaving_ = false;
  std::optional<Epoch> farewell_;
  std::optional<Start> decided_;  ///< Our own last decision, for those who ask again.
  std::set<PeerId> too_late_;     ///< Answered that ballot after it was decided.
  ReduceChoice last_choice_;      ///< Of the last epoch we were in,
  std::map<PeerId, std::uint32_t> last_shares_;  ///< and who took how many samples.
  std::map<PeerId, Answer> answers_;             ///< To our ballot under way.
  std::vector<PeerId> asked_;
  bool proposing_ = false;
  bool answered_ = false;            ///< We wait for another's decision, or for it to be void.
  std::optional<Time> still_since_;  ///< When we last had reason to hope; empty before the first.
  Time proposed_at_{};
  Time ask_again_at_ = never;
  double answer_seconds_ = 0;  ///< How long the slowest answers take, smoothed.
  std::uint64_t ballots_ = 0;
};

}  // namespace gv
