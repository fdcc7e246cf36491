// Ballots: propose, promise, install. A later ballot always wins.
#include "consensus/generation/agreement.hpp"

#include <algorithm>
#include <set>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/check.hpp"
#include "base/rng.hpp"

namespace gv {
namespace {

/// A peer that is not blamed gets this many times the patience to answer.
constexpr int patience_with_the_good = 4;
/// A peer that answered waits this many times the patience for the decision.
constexpr int patience_with_decisions = 6;
/// Weight of the newest measurement of how long answers take.
constexpr double newest_weight = 0.2;
/// The lowest bits of a ballot's counter name its proposer's process, because a process that was
/// restarted begins to count from zero.
constexpr int session_bits = 32;

}  // namespace

ModelVersion after_operation(ModelVersion version, std::uint64_t generation_key,
                             std::uint64_t samples, std::uint64_t steps) {
  version.lineage = hash_combine(hash_combine(version.lineage, generation_key), version.step);
  version.step += steps;
  version.samples += samples;
  return version;
}

Agreement::Agreement(PeerId self, std::uint64_t session, Options options)
    : self_(self), session_(session % (std::uint64_t{1} << session_bits)), options_(options) {}

Duration Agreement::patience() const {
  return std::clamp(from_seconds(4 * answer_seconds_), options_.patience, options_.patience_max);
}

void Agreement::set_candidates(Time now, std::vector<PeerId> candidates) {
  candidates_ = std::move(candidates);
  if (still_since_ && !generation_) ask_again_at_ = std::min(ask_again_at_, now + patience() / 3);
}

void Agreement::disturb(Time now, const std::vector<PeerId>& blamed, Effects& out) {
  bool news = false;
  for (const PeerId peer : blamed) news |= peer != self_ && blamed_.insert(peer).second;
  const bool still = still_since_ && !generation_;
  // A peer without a connection to the lost one learns of the loss only from us. Otherwise it would
  // wait for that peer.
  if (generation_ || (still && news)) {
    for (const PeerId peer : generation_ ? generation_->order : candidates_) {
      if (peer != self_) out.send(peer, EndGeneration{promised_, blamed});
    }
  }
  if (!still) stand_still(now);
}

/// The next ballot comes at once, as the cause that ended the generation may be over. After two
/// generations in a row without a finished collective, at most one begins in a patience. Otherwise
/// peers would do nothing but agree, as often as links allow.
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

/// When it is our turn to propose: at once if we are the first peer not blamed, later for each
/// peer after it, and later still while another's ballot may be decided.
Time Agreement::own_turn() const {
  int before = 0;
  for (const PeerId peer : candidates_) {
    if (peer == self_) break;
    if (!blamed_.contains(peer)) ++before;
  }
  const bool may_come = answered_ && !blamed_.contains(promised_.proposer);
  const int waits = 2 * before + (may_come ? patience_with_decisions : 0);
  return *still_since_ + waits * patience();
}

Duration Agreement::wait_for_answers() const {
  const bool all_blamed = std::ranges::all_of(
      asked_, [this](PeerId peer) { return answers_.contains(peer) || blamed_.contains(peer); });
  return all_blamed ? patience() : patience_with_the_good * patience();
}

void Agreement::tick(Time now, const GenerationPlanner& planner, Effects& out) {
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
  if (!still_since_ || generation_ || last_generation_) return never;
  if (proposing_) return std::min(proposed_at_ + wait_for_answers(), ask_again_at_);
  return answered_ ? std::min(own_turn(), ask_again_at_) : own_turn();
}

void Agreement::ask(PeerId peer, Effects& out) const { out.send(peer, Propose{promised_}); }

void Agreement::propose(Time now, const GenerationPlanner& planner, Effects& out) {
  ++ballots_;
  const std::uint64_t newest = std::max(newest_seen_, promised_.counter) >> session_bits;
  newest_seen_ = (newest + 1) << session_bits | session_;
  promised_ = {newest_seen_, self_};
  proposing_ = true;
  answered_ = false;
  proposed_at_ = now;
  ask_again_at_ = now + patience() / 3;
  answers_.clear();
  answers_[self_] = own_;
  asked_ = candidates_;
  std::erase(asked_, self_);
  for (const PeerId peer : asked_) ask(peer, out);
  if (asked_.empty()) decide(now, planner, out);
}

void Agreement::decide(Time now, const GenerationPlanner& planner, Effects& out) {
  // A peer that was lost after its answer would only end the generation again. If it lives, it
  // joins the next one.
  std::erase_if(answers_, [this](const auto& answer) { return blamed_.contains(answer.first); });
  if (do_all_leave()) {
    for (const PeerId peer : asked_) out.send(peer, Install{{.id = promised_}});
    become_left_out({.id = promised_});
    return;
  }
  std::optional<Generation> start = planner.plan(answers_, last_ ? &*last_ : nullptr);
  if (start) {
    start->id = promised_;
    for (const auto& [peer, answer] : answers_) {
      start->revision = std::max(start->revision, answer.revision);
    }
  }
  for (const PeerId peer : asked_) {
    // A peer that did not answer is told too, so that it learns that it is not in the generation.
    const auto answer = answers_.find(peer);
    if (answer == answers_.end() || answer->second.leaves) blamed_.insert(peer);
    if (start) out.send(peer, Install{*start});
  }
  if (!start) {
    out.tell(StageLost{});
    stand_still(now);
    still_since_ = now + patience();
    return;
  }
  decided_ = start;
  too_late_.clear();
  if (own_.leaves) {
    become_left_out(*std::move(start));
  } else {
    begin(now, *std::move(start), out);
  }
}

bool Agreement::do_all_leave() const {
  return std::ranges::all_of(answers_, [](const auto& answer) { return answer.second.leaves; });
}

/// The others go on without us.
void Agreement::become_left_out(Generation generation) {
  proposing_ = false;
  answered_ = false;
  ask_again_at_ = never;
  last_generation_ = std::move(generation);
}

void Agreement::begin(Time now, Generation generation, Effects& out) {
  out.tell(GenerationBegan{.peer = generation.id.proposer,
                           .ballot = generation.id.counter >> session_bits,
                           .peers = generation.order.size(),
                           .step = generation.version.step});
  proposing_ = false;
  answered_ = false;
  ask_again_at_ = never;
  set_revision(generation.revision);
  last_ = generation;
  began_at_ = now;
  began_from_ = own_.version;
  generation_ = std::move(generation);
}

void Agreement::confirm(Effects& out) const {
  out.send(promised_.proposer, Promise{promised_, own_});
}

void Agreement::receive(Time now, PeerId from, const Message& message,
                        const GenerationPlanner& planner, Effects& out) {
  heard(from);
  std::visit(
      [&](const auto& known) {
        using T = std::decay_t<decltype(known)>;
        if constexpr (std::is_same_v<T, Promise> || std::is_same_v<T, Install>) {
          receive(now, from, known, planner, out);
        } else if constexpr (std::is_same_v<T, Propose> || std::is_same_v<T, Preempted> ||
                             std::is_same_v<T, EndGeneration>) {
          receive(now, from, known, out);
        }
      },
      message);
}

void Agreement::receive(Time now, PeerId from, const Propose& message, Effects& out) {
  if (message.ballot.proposer != from) return;
  newest_seen_ = std::max(newest_seen_, message.ballot.counter);
  if (message.ballot < promised_) {
    out.send(from, Preempted{promised_});
    return;
  }
  if (message.ballot == promised_) {
    if (answered_) confirm(out);  // Our answer was lost. A generation that is over stays over.
    return;
  }
  stand_still(now);
  promised_ = message.ballot;
  answered_ = true;
  ask_again_at_ = now + patience() / 3;
  confirm(out);
}

/// An answer came now. A late peer gets more time in the next ballot, but one that stood still for
/// a minute does not make us wait for minutes.
void Agreement::measure(Time now) {
  const double took = seconds(std::min(now - proposed_at_, 3 * patience()));
  answer_seconds_ += newest_weight * (took - answer_seconds_);
}

void Agreement::receive(Time now, PeerId from, const Promise& message,
                        const GenerationPlanner& planner, Effects& out) {
  if (decided_ && message.ballot == decided_->id) {
    if (!decided_->contains(from) && too_late_.insert(from).second) measure(now);
    const bool is_newest = generation_ ? generation_->id == decided_->id
                                       : last_generation_ && last_generation_->id == decided_->id;
    if (is_newest) out.send(from, Install{*decided_});
    return;
  }
  const bool awaited =
      proposing_ && message.ballot == promised_ && std::ranges::find(asked_, from) != asked_.end();
  if (!awaited) return;
  if (answers_.emplace(from, message.answer).second) measure(now);
  if (answers_.size() == asked_.size() + 1) decide(now, planner, out);
}

/// Our ballot is void: a peer we asked has answered a later one, which may yet be decided.
void Agreement::receive(Time now, PeerId, const Preempted& message, Effects&) {
  newest_seen_ = std::max(newest_seen_, message.ballot.counter);
  if (!proposing_ || message.ballot < promised_) return;
  stand_still(now);
  answered_ = true;
  ask_again_at_ = never;
}

void Agreement::receive(Time now, PeerId from, const Install& message,
                        const GenerationPlanner& planner, Effects& out) {
  const Generation& start = message.generation;
  const bool awaited =
      answered_ && start.id == promised_ && start.id.proposer == from && from != self_;
  if (!awaited) return;
  const std::size_t n = start.order.size();
  const bool is_in = start.contains(self_);
  if (own_.leaves && !is_in) {
    become_left_out(start);
    return;
  }
  if (n == 0 || start.sources.size() != n || start.shares.size() != n) return;
  if (!is_in) {
    stand_still(now);
    answered_ = true;
    return;
  }
  if (!planner.can_begin(start, self_, own_)) return;
  // A source that takes no part is about to leave.
  for (const StageAssignment& assignment : start.assignments) {
    if (!start.contains(assignment.source)) blamed_.insert(assignment.source);
  }
  begin(now, start, out);
}

/// Blame only shortens our wait: a peer that is blamed wrongly and answers in time takes part.
void Agreement::receive(Time now, PeerId from, const EndGeneration& message, Effects&) {
  if (generation_) {
    const bool concerns =
        message.blamed.empty() || std::ranges::any_of(message.blamed, [this](PeerId peer) {
          return generation_->contains(peer);
        });
    if (message.ballot != generation_->id || !generation_->contains(from) || !concerns) return;
    stand_still(now);
  }
  for (const PeerId peer : message.blamed) {
    // An answer to our ballot is newer than earlier blame.
    const bool outdated = proposing_ && message.ballot != promised_ && answers_.contains(peer);
    if (peer != self_ && !outdated) blamed_.insert(peer);
  }
}

}  // namespace gv
