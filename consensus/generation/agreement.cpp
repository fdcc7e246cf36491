// Ballots: propose, promise, install. A later ballot always supersedes an earlier one.
#include "consensus/generation/agreement.hpp"

#include <algorithm>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/rng.hpp"
#include "base/state_hash.hpp"
#include "consensus/generation/soundness.hpp"

namespace gv {
namespace {

/// A peer that is not blamed has this many times patience() to answer.
constexpr int patience_with_the_good = 4;
/// A peer that has answered waits this many times patience() for the decision.
constexpr int patience_with_decisions = 6;
/// Weight of the newest measurement in the smoothed duration of answers.
constexpr double newest_weight = 0.2;
/// An honest peer never misses more settings revisions than this while it runs.
constexpr std::uint64_t revisions_ahead_max = 64;
/// The largest number of a settings revision that a newcomer accepts.
constexpr std::uint64_t first_revision_max = std::uint64_t{1} << 32;

using Handled = std::variant<Propose, Promise, Preempted, Install, Decided, Equivocation,
                             EndGeneration, Refusals>;

}  // namespace

Agreement::Agreement(PeerId self, std::uint64_t session, Options options, const Signer& signer)
    : self_(self),
      session_(static_cast<std::uint32_t>(session)),
      options_(options),
      exclusion_(self),
      watch_(self, signer),
      newest_seen_(options.first_ballot) {}

bool Agreement::handles(const Message& message) {
  return std::visit([]<class M>(const M&) { return IsOneOf<M, Handled>; }, message);
}

void Agreement::set_candidates(Time now, std::vector<PeerId> present) {
  present_ = std::move(present);
  std::erase_if(reported_, [this](const auto& entry) {
    return std::ranges::find(present_, entry.first) == present_.end();
  });
  choose_candidates();
  if (still_since_ && !generation_) ask_again_at_ = std::min(ask_again_at_, now + patience() / 3);
}

/// A message may blame any id, so ids of peers that are not present are ignored.
void Agreement::blame(PeerId peer) {
  const bool is_there = std::ranges::find(present_, peer) != present_.end();
  if (peer != self_ && is_there) blamed_.insert(peer);
}

void Agreement::choose_candidates() {
  candidates_ = present_;
  std::erase_if(candidates_, [this](PeerId peer) { return peer != self_ && is_excluded(peer); });
}

bool Agreement::refuse(Time now, PeerId peer, Effects& out) {
  if (!exclusion_.refuse(now, peer)) return false;
  choose_candidates();
  tell_refusals(out);
  return true;
}

/// Counts a message that breaks the rules against its sender.
void Agreement::offend(Time now, PeerId peer, const std::string& why, Effects& out) {
  out.tell(UnsoundMessage{.peer = peer, .why = why});
  if (exclusion_.offend(now, peer)) {
    // Outside lockstep the peer stays in our generations, so we must still answer its ballots.
    if (exclusion_.is_in_step()) {
      out.tell(LinkQuarantined{.peer = peer, .why = why, .seconds = seconds(refusal())});
    }
    choose_candidates();
    tell_refusals(out);
  }
  if (answered_ && promised_.proposer == peer) give_up_on_proposer(now);
}

/// Acts on the result of comparing decisions.
void Agreement::judge(Time now, const EquivocationWatch::Finding& finding, Effects& out) {
  for (const PeerId peer : finding.forgers) {
    offend(now, peer, "it shows a decision that its proposer has not signed", out);
  }
  if (finding.proof) convict(now, *finding.proof, out);
}

/// Excludes a proposer for ever if it is proved to have sent peers different decisions.
void Agreement::convict(Time now, const Equivocation& proof, Effects& out) {
  const PeerId peer = proof.one.ballot.proposer;
  if (peer == self_) return;  // Another process uses our key, and others exclude us.
  watch_.convict(proof);
  exclusion_.refuse_for_ever(peer);
  out.tell(EquivocationProved{.peer = peer, .ballot = proof.one.ballot.number});
  choose_candidates();
  tell_refusals(out);
  watch_.show_proofs(now, present_, out);
  if (answered_ && promised_.proposer == peer) give_up_on_proposer(now);
}

/// True if a generation began without us because we refuse one of its peers that few others refuse.
bool Agreement::must_rest() const {
  const bool are_left_out = last_generation_ && !own_.leaves;
  return are_left_out && std::ranges::any_of(last_generation_->order, [this](PeerId peer) {
           const bool is_there = std::ranges::find(present_, peer) != present_.end();
           return is_there && exclusion_.shuns(peer) &&
                  !exclusion_.is_refused_by_many(peer, present_);
         });
}

void Agreement::disturb(Time now, const std::vector<PeerId>& blamed, Effects& out) {
  bool news = false;
  for (const PeerId peer : blamed) news |= peer != self_ && blamed_.insert(peer).second;
  const bool still = still_since_ && !generation_;
  if (generation_) charge_for_losses(now, blamed, out);
  // A peer that has no connection to the lost peer learns of the loss only from us.
  if (generation_ || (still && news)) {
    for (const PeerId peer : generation_ ? generation_->order : candidates_) {
      if (peer != self_) out.send(peer, EndGeneration{promised_, blamed});
    }
  }
  if (!still) stand_still(now);
}

/// Charges the lost peers for the end of the generation. The other peers charge us, because we are
/// the one that tells them of it. So we stop working with a peer that is lost again and again
/// before they stop listening to us.
void Agreement::charge_for_losses(Time now, const std::vector<PeerId>& lost, Effects& out) {
  bool has_refused = false;
  for (const PeerId peer : lost) {
    has_refused |= generation_->contains(peer) && exclusion_.lose(now, peer);
  }
  if (!has_refused) return;
  choose_candidates();
  tell_refusals(out);
}

/// Stops work until a ballot is decided, and usually lets one begin at once. After two successive
/// generations without a finished collective, the next ballot begins no earlier than one patience()
/// after the last generation began. Otherwise the peers might do nothing but hold ballots.
void Agreement::stand_still(Time now) {
  still_since_ = now;
  if (generation_) {
    const bool was_in_vain = std::exchange(in_vain_, own_.version == began_from_);
    if (was_in_vain && in_vain_) still_since_ = std::max(now, began_at_ + patience());
  }
  generation_.reset();
  last_generation_.reset();
  proposing_ = false;
  answered_ = false;
  ask_again_at_ = never;
}

/// The largest number such that more than a third of all candidates have reported a ballot at least
/// as large. If at most a third of them are hostile, at least one reporter is honest, so hostile
/// reports alone cannot raise the numbers. `own` is the number that we report.
std::uint64_t Agreement::vouched(std::uint64_t own) const {
  std::vector<std::uint64_t> numbers{own};
  for (const PeerId peer : candidates_) {
    if (peer == self_) continue;
    const auto reported = reported_.find(peer);
    numbers.push_back(reported != reported_.end() ? reported->second : 0);
  }
  const auto nth = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 3);
  std::ranges::nth_element(numbers, nth, std::greater());
  return *nth;
}

bool Agreement::is_near(const GenerationId& ballot) const {
  return ballot.number <= std::max(newest_seen_, vouched(newest_seen_)) + numbers_ahead_max;
}

/// True if our ballot number is far above both the number of `ballot` and the numbers that the
/// others report. A hostile peer may have raised ours while we knew hardly any other peer. Without
/// this check we would never work with the others again. If the hostile peer has raised the numbers
/// of all peers, their reports lag behind for a moment, but `ballot` does not.
bool Agreement::is_lifted_above(const GenerationId& ballot) const {
  const std::uint64_t sound = vouched(0);
  return sound > 0 && promised_.number > std::max(sound, ballot.number) + numbers_ahead_max;
}

bool Agreement::is_near(const SettingsRevision& revision) const {
  return revision.number <=
         (last_ ? last_->revision.number + revisions_ahead_max : first_revision_max);
}

/// When it is our turn to propose. The first peer that is not blamed proposes at once. Every such
/// peer before us delays our turn. We also wait while another peer's ballot may be decided.
Time Agreement::own_turn() const {
  const std::vector<PeerId> in = exclusion_.taking_part(present_, present_);
  const auto takes_part = [&in](PeerId peer) { return std::ranges::binary_search(in, peer); };
  std::size_t before = 0;
  for (const PeerId peer : candidates_) {
    if (peer == self_) break;
    before += !blamed_.contains(peer) && takes_part(peer);
  }
  // If the next generation would leave us out, all others propose before us.
  if (!takes_part(self_)) before = candidates_.size();
  const bool may_come = answered_ && !blamed_.contains(promised_.proposer) &&
                        !budget_.is_low(*still_since_, promised_.proposer);
  const std::size_t waits = 2 * before + (may_come ? patience_with_decisions : 0);
  return *still_since_ + waits * patience();
}

/// How long to wait for missing answers. A peer that calls too many ballots may be silent in those
/// of others, so it gets no more time than a blamed peer.
Duration Agreement::wait_for_answers() const {
  Duration wait{};
  for (const PeerId peer : asked_) {
    if (answers_.contains(peer)) continue;
    Duration least = blamed_.contains(peer) ? patience() : patience_with_the_good * patience();
    if (budget_.is_low(proposed_at_, peer)) least = std::min(least, patience());
    wait = std::max(wait, least);
  }
  return wait;
}

/// Charges the proposer for the time that we have waited for its decision in vain. If our process
/// was suspended meanwhile, we charge at most the longest wait that a running process can have.
void Agreement::charge_for_wait(Time now) {
  if (!answered_ || promised_.proposer == self_) return;
  const auto waits = static_cast<int>(2 * candidates_.size() + patience_with_decisions);
  budget_.charge(now, promised_.proposer, std::min(now - *still_since_, waits * patience()));
}

void Agreement::tick(Time now, const GenerationPlanner& planner, Effects& out) {
  budget_.tick(now);
  if (exclusion_.tick(now, present_)) tell_refusals(out);
  watch_.show_proofs(now, present_, out);
  choose_candidates();
  if (last_generation_ && !own_.leaves && !must_rest()) stand_still(now);
  if (!still_since_ || generation_ || last_generation_) return;
  if (proposing_) {
    if (now >= proposed_at_ + wait_for_answers()) {
      decide(now, planner, out);
    } else if (now >= ask_again_at_) {
      ask_again_at_ = now + patience() / 3;
      for (const PeerId peer : asked_) {
        if (!answers_.contains(peer)) ask(peer, out);
      }
    }
  } else if (now >= own_turn()) {
    propose(now, planner, out);
  } else if (answered_ && now >= ask_again_at_) {
    ask_again_at_ = now + patience() / 3;
    confirm(out);
  }
}

Time Agreement::deadline() const {
  const Time over = std::min(exclusion_.deadline(), watch_.deadline());
  if (!still_since_ || generation_ || last_generation_) return over;
  if (proposing_) return std::min({over, proposed_at_ + wait_for_answers(), ask_again_at_});
  return std::min(over, answered_ ? std::min(own_turn(), ask_again_at_) : own_turn());
}

void Agreement::propose(Time now, const GenerationPlanner& planner, Effects& out) {
  charge_for_wait(now);
  ++ballots_;
  newest_seen_ = std::max({newest_seen_, promised_.number, vouched(newest_seen_)}) + 1;
  promised_ = {newest_seen_, session_, self_};
  proposing_ = true;
  answered_ = false;
  proposed_at_ = now;
  ask_again_at_ = now + patience() / 3;
  answers_.clear();
  answers_[self_] = own_;
  asked_ = candidates_;
  std::erase(asked_, self_);
  if (!exclusion_.own().empty()) tell_refusals(out);
  for (const PeerId peer : asked_) ask(peer, out);
  if (asked_.empty()) decide(now, planner, out);
}

void Agreement::decide(Time now, const GenerationPlanner& planner, Effects& out) {
  // A peer that we have lost since its answer would only end the generation again. If it is alive,
  // it joins the next generation.
  std::erase_if(answers_, [this](const auto& answer) { return blamed_.contains(answer.first); });
  std::vector<PeerId> present;
  for (const auto& [peer, answer] : answers_) present.push_back(peer);
  Answers taking_part = answers_;
  const std::vector<PeerId> in = exclusion_.taking_part(present, present_);
  std::erase_if(taking_part,
                [&](const auto& answer) { return !std::ranges::binary_search(in, answer.first); });
  if (taking_part.empty()) {
    stand_still(now);
    still_since_ = now + patience();
    return;
  }
  // A peer that is left out cannot take over stages, even if it stays.
  const bool do_all_leave =
      std::ranges::all_of(taking_part, [](const auto& answer) { return answer.second.leaves; });
  if (do_all_leave) {
    const Generation end{.id = promised_, .version = planner.newest_version(answers_, own_)};
    for (const PeerId peer : asked_) out.send(peer, signed_install(end, watch_.signer()));
    return become_left_out(end);
  }
  std::optional<Generation> start = planner.plan(taking_part, last_ ? &*last_ : nullptr);
  if (start) {
    start->id = promised_;
    start->ends = start->ends && planner.end_view() != EndView::far;
    for (const auto& [peer, answer] : taking_part) {
      if (is_near(answer.revision)) start->revision = std::max(start->revision, answer.revision);
    }
  }
  if (start) decided_ = signed_install(*start, watch_.signer());
  for (const PeerId peer : asked_) {
    // A peer that did not answer is sent the decision too, so that it learns that it is left out.
    const auto answer = answers_.find(peer);
    if (answer == answers_.end() || answer->second.leaves) blamed_.insert(peer);
    if (answer == answers_.end())
      out.tell(PeerSilent{.peer = peer, .seconds = seconds(now - proposed_at_)});
    if (start) out.send(peer, *decided_);
  }
  if (!start) {
    out.tell(StageLost{});
    stand_still(now);
    still_since_ = now + patience();
    return;
  }
  too_late_.clear();
  if (own_.leaves || !taking_part.contains(self_)) {
    become_left_out(*std::move(start));
  } else {
    begin(now, *std::move(start), out);
  }
}

/// Call when the others continue without us.
void Agreement::become_left_out(Generation generation) {
  proposing_ = false;
  answered_ = false;
  ask_again_at_ = never;
  last_generation_ = std::move(generation);
}

void Agreement::begin(Time now, Generation generation, Effects& out) {
  out.tell(GenerationBegan{.peer = generation.id.proposer,
                           .ballot = generation.id.number,
                           .peers = generation.order.size(),
                           .step = generation.version.step});
  proposing_ = false;
  answered_ = false;
  ask_again_at_ = never;
  // If our revision's number is far above the generation's, our revision was never valid.
  const bool is_ours_sound =
      own_.revision.number <= generation.revision.number + revisions_ahead_max;
  own_.revision =
      is_ours_sound ? std::max(own_.revision, generation.revision) : generation.revision;
  last_ = generation;
  began_at_ = now;
  began_from_ = own_.version;
  generation_ = std::move(generation);
}

void Agreement::confirm(Effects& out) {
  if (promised_.proposer == self_) return;  // Our own ballot is void, and we wait for a later one.
  given_.ends = own_.ends;
  out.send(promised_.proposer, Promise{promised_, own_});
}

/// True if this is the peer's first answer to our ballot.
bool Agreement::awaits(PeerId from, const Promise& message) const {
  return proposing_ && message.ballot == promised_ && !answers_.contains(from) &&
         std::ranges::find(asked_, from) != asked_.end();
}

/// True if this may be the decision that we are waiting for.
bool Agreement::awaits(PeerId from, const Install& message) const {
  const GenerationId& ballot = message.generation.id;
  return answered_ && ballot == promised_ && ballot.proposer == from && from != self_;
}

/// Returns why no honest peer would send this message; empty if one might. Judging settings means
/// reading a whole config, so we skip it if a peer repeats a message, or sends one that we do not
/// wait for. If a repeated decision differs from the first, `watch_` notices.
std::string Agreement::problem_of(PeerId from, const Message& message,
                                  const GenerationPlanner& planner) const {
  Message judged = message;
  if (auto* promise = std::get_if<Promise>(&judged)) {
    if (!awaits(from, *promise)) promise->answer.revision = {};
  } else if (auto* install = std::get_if<Install>(&judged)) {
    const bool is_known = watch_.has_accepted(install->generation.id);
    if (!awaits(from, *install) || is_known) install->generation.revision = {};
  }
  return unsoundness(from, judged, planner);
}

void Agreement::receive(Time now, PeerId from, const Message& message,
                        const GenerationPlanner& planner, Effects& out) {
  if (is_excluded(from)) return;
  heard(from);
  const std::string why = problem_of(from, message, planner);
  if (!why.empty()) return offend(now, from, why, out);
  std::visit(
      [&](const auto& known) {
        using T = std::decay_t<decltype(known)>;
        if constexpr (requires { known.ballot.number; }) {
          std::uint64_t& reported = reported_[from];
          reported = std::max(reported, known.ballot.number);
        }
        if constexpr (std::is_same_v<T, Promise> || std::is_same_v<T, Install>) {
          receive(now, from, known, planner, out);
        } else if constexpr (IsOneOf<T, Handled>) {
          receive(now, from, known, out);
        }
      },
      message);
}

/// Blames the proposer whose decision we wait for, because it has sent none that we can accept.
void Agreement::give_up_on_proposer(Time now) {
  const PeerId proposer = promised_.proposer;
  stand_still(now);
  blamed_.insert(proposer);
}

void Agreement::receive(Time now, PeerId from, const Propose& message, Effects& out) {
  const bool was_lifted = is_lifted_above(message.ballot);
  if (message.ballot < promised_ && !was_lifted) return out.send(from, Preempted{promised_});
  if (message.ballot == promised_) {
    // Our answer was lost, so send it again. A generation that has ended is not resumed.
    if (answered_) confirm(out);
    return;
  }
  if (!is_near(message.ballot) || !budget_.take(now, from)) return;
  interrupted_ = generation_.has_value();
  charge_for_wait(now);
  stand_still(now);
  promised_ = message.ballot;
  newest_seen_ = std::max(newest_seen_, promised_.number);
  if (was_lifted) {
    // Our ballots may now repeat earlier numbers. Two different decisions of one ballot would
    // convict us, so the new ballots get another session.
    newest_seen_ = promised_.number;
    session_ = static_cast<std::uint32_t>(hash_combine(session_, newest_seen_));
  }
  answered_ = true;
  given_ = {};
  ask_again_at_ = now + patience() / 3;
  confirm(out);
}

/// Measures the time from our proposal to the answer that has just arrived. A late peer gets more
/// time in the next ballot. The measurement has a limit, so a stall of a minute does not make us
/// wait for minutes.
void Agreement::measure(Time now) {
  const double took = seconds(std::min(now - proposed_at_, 3 * patience()));
  answer_seconds_ += newest_weight * (took - answer_seconds_);
}

void Agreement::receive(Time now, PeerId from, const Promise& message,
                        const GenerationPlanner& planner, Effects& out) {
  if (decided_ && message.ballot == decided_->generation.id) {
    if (!decided_->generation.contains(from) && too_late_.insert(from).second) measure(now);
    const Generation* newest = generation_ ? generation() : last_generation();
    if (newest != nullptr && newest->id == message.ballot) out.send(from, *decided_);
    return;
  }
  if (!awaits(from, message)) return;
  answers_[from] = message.answer;
  measure(now);
  if (answers_.size() == asked_.size() + 1) decide(now, planner, out);
}

/// A peer that we asked has answered a later ballot, so ours is void. The later one may be decided.
void Agreement::receive(Time now, PeerId from, const Preempted& message, Effects&) {
  if (!is_near(message.ballot)) return;
  newest_seen_ = std::max(newest_seen_, message.ballot.number);
  if (!proposing_ || message.ballot < promised_ || !budget_.take(now, from)) return;
  stand_still(now);
  answered_ = true;
  ask_again_at_ = never;
}

void Agreement::receive(Time now, PeerId from, const Install& message,
                        const GenerationPlanner& planner, Effects& out) {
  const Generation& start = message.generation;
  if (!awaits(from, message)) return;
  const Decision decision = decision_in(message, watch_.signer());
  if (!watch_.holds(decision)) {
    if (!is_signed(decision, watch_.signer())) {
      return offend(now, from, "it installs a generation without its signature", out);
    }
    judge(now, watch_.accept(decision, present_, out), out);
    if (is_excluded(from)) return;
  }
  if (const std::string why = planner.problem_of_sources(start, self_, own_); !why.empty()) {
    return refuse_sources(now, start, why, out);
  }
  const bool is_in = start.contains(self_);
  const bool is_with_refused =
      std::ranges::any_of(start.order, [this](PeerId peer) { return exclusion_.shuns(peer); });
  if (!is_in && (own_.leaves || is_with_refused)) return become_left_out(start);
  if (start.order.empty()) return;
  if (!is_in) {
    stand_still(now);
    answered_ = true;
    return;
  }
  if (const std::string why = planner.problem_of_end(start, given_.ends); !why.empty()) {
    return offend(now, from, why, out);
  }
  if (is_refused(start, planner)) return give_up_on_proposer(now);
  if (!interrupted_) budget_.give_back(from);
  // A source outside the generation is about to leave.
  for (const StageAssignment& assignment : start.assignments) {
    if (!start.contains(assignment.source)) blame(assignment.source);
  }
  begin(now, start, out);
}

/// Refuses a generation that contradicts our answer about our states. The others cannot know of the
/// contradiction, and would wait for us or for a state that we do not have. So we end the
/// generation for them.
void Agreement::refuse_sources(Time now, const Generation& start, const std::string& why,
                               Effects& out) {
  const PeerId proposer = start.id.proposer;
  const std::vector<PeerId> blamed(start.contains(proposer) ? 1 : 0, proposer);
  for (const PeerId peer : start.order) {
    if (peer != self_) out.send(peer, EndGeneration{start.id, blamed});
  }
  // The proposer may have used an answer of our former process, or one that no longer holds.
  if (!last_ || given_.is_outdated) return give_up_on_proposer(now);
  offend(now, proposer, why, out);
}

/// True if we must not begin `start`. It may contain an excluded peer, or name a source for us that
/// takes no part in it. It may also contradict our view of the end of the run, of versions or of
/// settings.
bool Agreement::is_refused(const Generation& start, const GenerationPlanner& planner) const {
  const bool goes_back = last_ && start.revision < last_->revision &&
                         last_->revision.number <= start.revision.number + revisions_ahead_max;
  const bool is_with_excluded = std::ranges::any_of(
      start.order, [this](PeerId peer) { return peer != self_ && is_excluded(peer); });
  std::vector<PeerId> givers = present_;
  // Where peers wait for each other, a peer that refuses the proposer has not answered its ballot.
  std::erase_if(givers, [&](PeerId peer) {
    return exclusion_.is_in_step() && exclusion_.refuses(peer, start.id.proposer);
  });
  return is_with_excluded || goes_back || !is_near(start.revision) ||
         !has_sources_among(givers, start, self_) || planner.contradicts_end(start) ||
         !planner.can_begin(start, self_, own_);
}

void Agreement::receive(Time now, PeerId from, const Decided& message, Effects& out) {
  judge(now, watch_.hear(from, message.decision), out);
}

void Agreement::receive(Time now, PeerId from, const Equivocation& message, Effects& out) {
  if (watch_.is_convicted(message.one.ballot.proposer)) return;
  if (!is_proof(message, watch_.signer())) {
    return offend(now, from, "it accuses a proposer without a proof", out);
  }
  convict(now, message, out);
}

/// Blame only shortens our wait: a wrongly blamed peer that answers in time is still included.
void Agreement::receive(Time now, PeerId from, const EndGeneration& message, Effects&) {
  if (generation_) {
    const bool concerns =
        message.blamed.empty() || std::ranges::any_of(message.blamed, [this](PeerId peer) {
          return generation_->contains(peer);
        });
    // A source may take no part, and only it knows that it lacks the state.
    const bool may_end = generation_->contains(from) ||
                         std::ranges::any_of(generation_->assignments, [from](const auto& one) {
                           return one.source == from;
                         });
    if (message.ballot != generation_->id || !may_end || !concerns) return;
    if (!budget_.take(now, from)) return;
    stand_still(now);
  }
  for (const PeerId peer : message.blamed) {
    // Blame from others does not remove a peer that has answered our ballot. Otherwise a hostile
    // peer could leave all others out by blaming them before it sends its own answer.
    const bool has_answered = proposing_ && answers_.contains(peer);
    if (!has_answered) blame(peer);
  }
}

void Agreement::receive(Time now, PeerId from, const Refusals& message, Effects&) {
  exclusion_.hear(now, from, message.peers);
  choose_candidates();
}

bool operator==(const Agreement& a, const Agreement& b) { return equal_states(a, b); }

}  // namespace gv
