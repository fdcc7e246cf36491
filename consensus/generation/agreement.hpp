// Leaderless agreement on generations: which peers work together, and from which model they start.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/time.hpp"
#include "consensus/generation/ballot_budget.hpp"
#include "consensus/generation/equivocation.hpp"
#include "consensus/generation/exclusion.hpp"
#include "consensus/generation/planner.hpp"
#include "consensus/message/effects.hpp"

namespace gv {

/// Ballots by which live peers agree on the next generation. A peer that answers a proposal stops
/// work until that ballot or a later one is decided. So no peer can finish a collective that is
/// missing from the new generation's model. The peer with the smallest id proposes; if it stays
/// silent, the next one proposes after a while. Peers that do not answer in time are left out and
/// join a later generation. A leaving peer answers once more, so that its state can be sent to
/// others. Pure.
class Agreement {
 public:
  struct Options {
    Duration patience = std::chrono::milliseconds(300);  ///< The shortest time allowed for answers.
    Duration patience_max = std::chrono::seconds(5);
    /// Our ballots have larger numbers than this. A peer that takes part in two agreements tells
    /// their messages apart by these numbers.
    std::uint64_t first_ballot = 0;
  };
  /// An honest peer never misses more of the others' ballots than this.
  static constexpr std::uint64_t numbers_ahead_max = std::uint64_t{1} << 20;

  /// `session` must differ from that of every earlier process of this peer, so that the ballots of
  /// different processes cannot be confused. `signer` has the key of `self` and must outlive this
  /// object.
  Agreement(PeerId self, std::uint64_t session, Options options, const Signer& signer);

  /// Sets the version of our replica. While work has stopped for a ballot, the version must not
  /// change, unless a job has refused the state that we had adopted.
  void set_version(const ModelVersion& version) {
    given_.is_outdated = given_.is_outdated || (answered_ && own_.version != version);
    own_.version = version;
  }
  const ModelVersion& version() const { return own_.version; }
  /// Sets how many samples we compute in a second, which determines our share; 0 means unknown.
  void set_speed(double samples_per_second) { own_.speed = static_cast<float>(samples_per_second); }
  /// Sets our measurements of our outgoing links, at most `link_reports_max`.
  void set_links(std::vector<LinkReport> links) { own_.links = std::move(links); }
  /// Sets the pipeline stages whose state we have, at most `stage_holdings_max`.
  void set_holdings(std::vector<StageHolding> holdings) { own_.holdings = std::move(holdings); }
  const std::vector<StageHolding>& holdings() const { return own_.holdings; }
  /// Sets the key of our host. Needed only if peers on one host should become neighbours.
  void set_host(std::uint64_t key) { own_.host = key; }
  /// Call to leave a pipeline: from now on we take no part, and hand over our stages.
  void set_leaving() { own_.leaves = true; }
  /// Sets whether the run's time is over by our clock. If so, training should end with the version
  /// of the next generation.
  void set_ends(bool ends) { own_.ends = ends; }
  /// The generation that began without us, either because we are leaving (its assignments may name
  /// us as a source) or because we refuse one of its peers. Null until it is decided.
  const Generation* last_generation() const {
    return last_generation_ ? &*last_generation_ : nullptr;
  }
  /// Proposes a settings revision for the next generation. If any peer knows a newer one, the newer
  /// one is used.
  void set_revision(SettingsRevision revision) {
    own_.revision = std::max(own_.revision, std::move(revision));
  }
  /// The newest revision that we know. The running generation may use an older one.
  const SettingsRevision& revision() const { return own_.revision; }

  /// Sets the peers that could join a generation now, including us, sorted. All of them become
  /// candidates, except excluded peers.
  void set_candidates(Time now, std::vector<PeerId> present);
  const std::vector<PeerId>& candidates() const { return candidates_; }

  /// Sets whether the peers of a generation wait for each other (the default). If they do not, a
  /// peer that is alone in refusing another stays in the same generation.
  void set_in_step(bool in_step) { exclusion_.set_in_step(in_step); }
  /// Refuses to work with `peer` for a while and tells all candidates. If is_spoilt() is true
  /// afterwards, the caller must end the running generation. Returns true if the refusal is new.
  bool refuse(Time now, PeerId peer, Effects& out);
  /// True if we refuse the peer. If peers do not wait for each other, a generation may still
  /// contain both of us.
  bool refuses(PeerId peer) const { return exclusion_.refuses(self_, peer); }
  /// The duration of a refusal.
  Duration refusal() const { return exclusion_.lasts(); }
  /// True if more than a third of all peers refuse the peer, or if we refuse it and are in
  /// lockstep.
  bool is_excluded(PeerId peer) const { return exclusion_.is_excluded(peer, present_); }
  /// True if we have a proof that the peer has signed two different decisions of one ballot.
  bool is_convicted(PeerId peer) const { return watch_.is_convicted(peer); }
  /// The proofs, by convicted peer.
  const std::map<PeerId, Equivocation>& proofs() const { return watch_.proofs(); }
  /// True if `peer` would be left out of a generation formed by the running one's peers and `peer`.
  bool is_left_out(PeerId peer) const {
    if (!generation_) return false;
    std::vector<PeerId> together = generation_->order;
    if (!generation_->contains(peer)) together.push_back(peer);
    return !std::ranges::binary_search(exclusion_.taking_part(together, present_), peer);
  }
  /// True if the running generation has to end because one of its peers is excluded.
  bool is_spoilt() const {
    return generation_ && std::ranges::any_of(generation_->order, [this](PeerId peer) {
             return peer != self_ && is_excluded(peer);
           });
  }

  /// Ends the running generation for all its peers. Peers in `blamed` (may be empty) get only a
  /// short timeout in the next ballot, from every peer that learns of the blame. We refuse a blamed
  /// peer for a few seconds if it has ended many generations in a short time. While no generation
  /// runs, only new blame is passed on.
  void disturb(Time now, const std::vector<PeerId>& blamed, Effects& out);

  /// Notes a sign of life from the peer, which is then no longer blamed.
  void heard(PeerId peer) { blamed_.erase(peer); }
  bool is_blamed(PeerId peer) const { return blamed_.contains(peer); }

  /// True for the messages that receive() handles.
  static bool handles(const Message& message);
  /// Handles Propose, Promise, Preempted, Install, Decided, Equivocation, EndGeneration and
  /// Refusals. A message that no honest peer sends is reported as UnsoundMessage and counts against
  /// its sender. A valid message is ignored if it asks for too much: a ballot far above all that
  /// peers report, more interruptions than the sender's budget allows, or a settings revision far
  /// above ours.
  void receive(Time now, PeerId from, const Message& message, const GenerationPlanner& planner,
               Effects& out);

  void tick(Time now, const GenerationPlanner& planner, Effects& out);
  Time deadline() const;

  /// The running generation, or null between generations. A new key means a new generation.
  const Generation* generation() const { return generation_ ? &*generation_ : nullptr; }
  /// The newest ballot that we have answered or begun.
  const GenerationId& promised() const { return promised_; }
  std::uint64_t ballots() const { return ballots_; }

  friend class Fields;
  static constexpr std::size_t field_count = 32;
  friend bool operator==(const Agreement& a, const Agreement& b);

  /// The time allowed for an answer: four times the measured time, within the options' bounds.
  Duration patience() const {
    return std::clamp(from_seconds(4 * answer_seconds_), options_.patience, options_.patience_max);
  }

 private:
  std::uint64_t vouched(std::uint64_t own) const;
  bool is_near(const GenerationId& ballot) const;
  bool is_lifted_above(const GenerationId& ballot) const;
  bool is_near(const SettingsRevision& revision) const;
  bool is_refused(const Generation& start, const GenerationPlanner& planner) const;
  void refuse_sources(Time now, const Generation& start, const std::string& why, Effects& out);
  void give_up_on_proposer(Time now);
  void charge_for_wait(Time now);
  void charge_for_losses(Time now, const std::vector<PeerId>& lost, Effects& out);
  void stand_still(Time now);
  void propose(Time now, const GenerationPlanner& planner, Effects& out);
  void decide(Time now, const GenerationPlanner& planner, Effects& out);
  void offend(Time now, PeerId peer, const std::string& why, Effects& out);
  void judge(Time now, const EquivocationWatch::Finding& finding, Effects& out);
  void convict(Time now, const Equivocation& proof, Effects& out);
  void blame(PeerId peer);
  void choose_candidates();
  void tell_refusals(Effects& out) const {
    for (const PeerId peer : candidates_) {
      if (peer != self_) out.send(peer, Refusals{exclusion_.own()});
    }
  }
  bool must_rest() const;
  void become_left_out(Generation generation);
  void begin(Time now, Generation generation, Effects& out);
  void receive(Time now, PeerId from, const Propose& message, Effects& out);
  void receive(Time now, PeerId from, const Promise& message, const GenerationPlanner& planner,
               Effects& out);
  void receive(Time now, PeerId from, const Preempted& message, Effects& out);
  void receive(Time now, PeerId from, const Install& message, const GenerationPlanner& planner,
               Effects& out);
  void receive(Time now, PeerId from, const Decided& message, Effects& out);
  void receive(Time now, PeerId from, const Equivocation& message, Effects& out);
  void receive(Time now, PeerId from, const EndGeneration& message, Effects& out);
  void receive(Time now, PeerId from, const Refusals& message, Effects& out);
  bool awaits(PeerId from, const Promise& message) const;
  bool awaits(PeerId from, const Install& message) const;
  std::string problem_of(PeerId from, const Message& message,
                         const GenerationPlanner& planner) const;
  void measure(Time now);
  void confirm(Effects& out);
  void ask(PeerId peer, Effects& out) const { out.send(peer, Propose{promised_}); }
  Duration wait_for_answers() const;
  Time own_turn() const;

  /// Facts about our answers to a proposer.
  struct Given {
    bool ends = false;         ///< True if our last answer reported the end of the run.
    bool is_outdated = false;  ///< True if our version has changed since our first answer. The
                               ///< proposer may know either version.
  };

  PeerId self_;
  std::uint32_t
      session_;  ///< Part of the ids of our ballots. Changes when our ballot numbers fall.
  Options options_;
  Answer own_;                   ///< Our present answer to any ballot.
  std::vector<PeerId> present_;  ///< The peers that could join, including excluded ones.
  std::vector<PeerId> candidates_;
  Exclusion exclusion_;
  EquivocationWatch watch_;
  std::set<PeerId> blamed_;        ///< Peers that were silent when they should not have been.
  GenerationId promised_;          ///< The newest ballot that we have answered or begun; older ones
                                   ///< are void.
  std::uint64_t newest_seen_ = 0;  ///< Number of the latest ballot that we took part in or accepted
                                   ///< as real.
  std::map<PeerId, std::uint64_t> reported_;  ///< The largest ballot number in the messages of each
                                              ///< peer.
  BallotBudget budget_;
  bool interrupted_ = false;  ///< True if the ballot that we last answered ended a running
                              ///< generation.
  std::optional<Generation> generation_;
  Time began_at_{};          ///< When the newest generation that included us began.
  ModelVersion began_from_;  ///< Our version when the newest generation that included us began.
  bool in_vain_ = false;     ///< True if the last generation ended without a change of our version.
  std::optional<Generation> last_generation_;
  std::optional<Install> decided_;  ///< Our own last decision, for peers that ask for it again.
  std::set<PeerId> too_late_;  ///< Peers whose answers to our last ballot came after its decision.
  std::optional<Generation> last_;  ///< The newest generation that included us.
  Answers answers_;                 ///< The answers so far to our ballot.
  std::vector<PeerId> asked_;
  bool proposing_ = false;
  bool answered_ = false;  ///< True while we wait for another peer's decision. The wait also ends
                           ///< if the ballot becomes void.
  Given given_;            ///< Describes our answer to the ballot that we wait for.
  std::optional<Time> still_since_;  ///< When we last stopped work for a ballot. Empty if we never
                                     ///< have.
  Time proposed_at_{};
  Time ask_again_at_ = never;
  double answer_seconds_ = 0;  ///< Smoothed duration of answers.
  std::uint64_t ballots_ = 0;
};

}  // namespace gv
