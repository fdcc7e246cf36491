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

#include "base/time.hpp"
#include "consensus/generation/planner.hpp"
#include "consensus/message/effects.hpp"

namespace gv {

/// What everybody in a generation knows of it.
struct Generation {
  GenerationId id;
  std::vector<PeerId> order;          ///< Who takes part; the place is the rank.
  std::vector<PeerId> sources;        ///< For each, who sends it the state; itself if it has it.
  std::vector<std::uint32_t> shares;  ///< Samples each contributes to an operation.
  ModelVersion version;               ///< All go on from here.
  std::uint8_t algorithm = 0;         ///< The number of the way to sum; see Install.
  PeerId slowest_from{};              ///< Where the link begins that sums wait for.
  LinkReport slowest;                 ///< That link; of 0 bytes a second if none was measured.
  std::vector<StageAssignment> assignments;  ///< In a pipeline: who carries which stage.
  SettingsRevision revision;                 ///< All go by this one.

  /// Names the generation in pieces and words.
  std::uint64_t key() const { return key_of(id); }
  bool contains(PeerId peer) const;
};

/// Where a replica stands after one more operation, of so many samples and optimiser steps, in an
/// generation of that name. Whoever computes it alike has made the same steps from the same model.
ModelVersion after_operation(ModelVersion version, std::uint64_t generation_key,
                             std::uint64_t samples, std::uint64_t steps = 1);

/// Ballots by which live peers agree on the next generation. Whoever answers a proposal stands
/// still until that ballot or a later one is decided, so nobody can finish an operation that the
/// new generation does not know of. The peer of the smallest id proposes; if it does not, the next
/// does after a while. Those who do not answer in time are left out and join a later generation.
/// Whoever leaves answers once more, so that others are sent what it has. Pure.
class Agreement {
 public:
  struct Options {
    Duration patience = std::chrono::milliseconds(300);  ///< For answers, until they are measured.
    Duration patience_max = std::chrono::seconds(5);
  };

  /// `session` differs from that of every earlier process of this peer, so that no ballot of one is
  /// taken for one of another.
  Agreement(PeerId self, std::uint64_t session, Options options);

  /// Where our replica stands; not while standing still.
  void set_version(const ModelVersion& version) { version_ = version; }
  const ModelVersion& version() const { return version_; }
  /// Samples a second that we compute, for shares; 0 = not known yet.
  void set_speed(double samples_per_second) { speed_ = static_cast<float>(samples_per_second); }
  /// What we have measured of links from us, at most `link_reports_max`.
  void set_links(std::vector<LinkReport> links) { links_ = std::move(links); }
  /// Of which stages of a pipeline we have the state, at most `stage_holdings_max`.
  void set_holdings(std::vector<StageHolding> holdings) { holdings_ = std::move(holdings); }
  const std::vector<StageHolding>& holdings() const { return holdings_; }
  /// In a pipeline: we take no part any more, and hand over what we claim.
  void set_leaving() { leaving_ = true; }
  /// The generation that began without us, who leave, and whose assignments may name us as a
  /// source; null before that is decided.
  const Generation* last_generation() const {
    return last_generation_ ? &*last_generation_ : nullptr;
  }
  /// What all are to go by from the next generation on, unless somebody knows of a newer one.
  void set_revision(SettingsRevision revision) {
    revision_ = std::max(revision_, std::move(revision));
  }
  /// The newest we have heard of. The generation under way may not know it.
  const SettingsRevision& revision() const { return revision_; }

  /// Who could take part now, ourselves included, sorted.
  void set_candidates(Time now, std::vector<PeerId> candidates);

  /// Ends the generation for all: something is wrong with it. `blamed`, maybe nobody, are not
  /// waited for long, by nobody who hears of it; while no generation runs that is all that is told.
  void disturb(Time now, const std::vector<PeerId>& blamed, Effects& out);

  /// A sign of life: the peer is waited for again.
  void heard(PeerId peer) { blamed_.erase(peer); }
  bool is_blamed(PeerId peer) const { return blamed_.contains(peer); }

  /// Handles Propose, Promise, Preempted, Install and EndGeneration.
  void receive(Time now, PeerId from, const Message& message, const GenerationPlanner& planner,
               Effects& out);

  void tick(Time now, const GenerationPlanner& planner, Effects& out);
  Time deadline() const;

  /// Null while standing still. Another key than before means another generation.
  const Generation* generation() const { return generation_ ? &*generation_ : nullptr; }
  /// The newest ballot we answered or began.
  const GenerationId& promised() const { return promised_; }
  std::uint64_t ballots() const { return ballots_; }

  /// How long an answer may take: follows what is measured.
  Duration patience() const;

 private:
  void stand_still(Time now);
  Answer own_answer() const;
  void propose(Time now, const GenerationPlanner& planner, Effects& out);
  void decide(Time now, const GenerationPlanner& planner, Effects& out);
  bool do_all_leave() const;
  void become_left_out(Generation generation);
  void begin(Time now, Generation generation, Effects& out);
  void receive(Time now, PeerId from, const Propose& message, Effects& out);
  void receive(Time now, PeerId from, const Promise& message, const GenerationPlanner& planner,
               Effects& out);
  void receive(Time now, PeerId from, const Preempted& message, Effects& out);
  void receive(Time now, PeerId from, const Install& message, const GenerationPlanner& planner,
               Effects& out);
  void receive(Time now, PeerId from, const EndGeneration& message, Effects& out);
  void measure(Time now);
  void confirm(Effects& out) const;
  void ask(PeerId peer, Effects& out) const;
  Duration wait_for_answers() const;
  Time own_turn() const;

  PeerId self_;
  std::uint64_t session_;
  Options options_;
  ModelVersion version_;
  float speed_ = 0;
  std::vector<LinkReport> links_;
  std::vector<StageHolding> holdings_;
  std::vector<PeerId> candidates_;
  std::set<PeerId> blamed_;        ///< Silent when they should not have been.
  GenerationId promised_;          ///< The newest ballot we answered; older ones are void.
  std::uint64_t newest_seen_ = 0;  ///< Counter of the latest ballot we have heard of.
  std::optional<Generation> generation_;
  Time began_at_{};          ///< When the newest generation we were in began,
  ModelVersion began_from_;  ///< and where we stood then.
  bool in_vain_ = false;     ///< The last one that ended left us there.
  SettingsRevision revision_;
  bool leaving_ = false;
  std::optional<Generation> last_generation_;
  std::optional<Install> decided_;  ///< Our own last decision, for those who ask again.
  std::set<PeerId> too_late_;       ///< Answered that ballot after it was decided.
  std::optional<Generation> last_;  ///< The newest generation we were in.
  Answers answers_;                 ///< To our ballot under way.
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
