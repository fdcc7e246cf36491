// Candidates, ballots, stalls and renewals, and the order in which events are handled.
#include "peer/modes/generation_mode.hpp"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

namespace gv {
namespace {

/// A leaving peer goes after this long, even if the others still need something from it.
constexpr Duration hand_over_max = std::chrono::seconds(5);

}  // namespace

GenerationMode::GenerationMode(PeerId self, std::uint64_t session, const CourseOptions& course,
                               const Agreement::Options& agreement)
    : Mode(self, course),
      agreement_(self, session, agreement),
      stragglers_(self),
      rebalance_(self) {}

// ---- Generations ----

void GenerationMode::set_candidates(Time now, Membership& members) {
  std::vector<PeerId> candidates;
  for (const PeerId peer : members.view().peers()) {
    const Member* member = members.find(peer);
    const bool alike =
        peer == self_ || (member != nullptr && member->layout_hash == course_.layout_hash &&
                          member->state != MemberState::dead);
    if (alike) candidates.push_back(peer);
  }
  if (candidates == candidates_) return;
  candidates_ = candidates;
  agreement_.set_candidates(now, std::move(candidates));
  candidates_changed(members);
}

void GenerationMode::enter_generation(Time now, Effects& out) {
  leave_generation();
  const Generation& generation = *agreement_.generation();
  ++generations_;
  generation_key_ = generation.key();
  stragglers_.enter_generation(now);
  rebalance_.enter_generation(now, generation.order.size());
  begin_generation(now, generation, out);
}

void GenerationMode::leave_generation() {
  generation_key_ = 0;
  rebalance_due_ = false;
  abandon();
  stragglers_.leave_generation();
  rebalance_.rest();
}

/// Ends the generation for all peers, and for us at once.
void GenerationMode::end_generation(Time now, const std::vector<PeerId>& blamed, Effects& out) {
  agreement_.disturb(now, blamed, out);
  leave_generation();
}

/// Something is wrong: ends the generation and records an interruption.
void GenerationMode::disturb(Time now, const std::vector<PeerId>& blamed, Effects& out) {
  if (!wanted_ || agreement_.last_generation() != nullptr) return;
  if (agreement_.generation() != nullptr) {
    recoveries_.become_interrupted(now, order());
    out.tell(GenerationEnded{.peer = blamed.empty() ? std::optional<PeerId>() : blamed.front()});
  }
  end_generation(now, blamed, out);
}

void GenerationMode::look_for_rebalance(Time now, Effects& out) {
  if (agreement_.generation() == nullptr) return;
  if (phase_ == Phase::done) {
    rebalance_.rest();
    return;
  }
  const Generation& generation = *agreement_.generation();
  rebalance_due_ =
      rebalance_due_ || rebalance_.newcomers_wait(now, agreement_, candidates_, out) ||
      (is_planned() && rebalance_.ballot_is_due(generation, candidates_, operations_)) ||
      generation.revision < agreement_.revision();
  if (rebalance_due_ && is_between_operations(now)) end_generation(now, {}, out);
}

void GenerationMode::watch_for_stragglers(Time now, Effects& out) {
  if (const auto silent = silent_source(now, out)) disturb(now, {*silent}, out);
  const Generation* generation = agreement_.generation();
  if (generation == nullptr) return;
  if (!is_waiting()) {
    stragglers_.rest(now);
    return;
  }
  const auto lost = stragglers_.watch(now, *generation, progress(), agreement_.patience(), out);
  if (lost) disturb(now, {lost->begin(), lost->end()}, out);
}

void GenerationMode::operation_done(Time now, std::uint64_t from_step, std::uint64_t steps,
                                    Effects& out) {
  ++operations_;
  stragglers_.operation_done(now, operations_ > 1 && !recoveries_.is_interrupted());
  rebalance_.operation_done(now);
  if (operation_seconds() > 0) {
    steps_per_second_ = static_cast<double>(steps) / operation_seconds();
  }
  recoveries_.become_resumed(now, order(), from_step, out);
}

void GenerationMode::become_unfit(std::uint64_t step, Effects& out) {
  become_stuck(GradientNotFinite{.step = step}, out);
}

void GenerationMode::become_stuck(Fact why, Effects& out) {
  stuck_ = true;
  out.tell(std::move(why));
}

// ---- Messages ----

void GenerationMode::receive(Time now, PeerId from, const Message& message, Membership& members,
                             Effects& out) {
  if (!started_ || !members.view().contains(from)) return;
  const Generation* generation = agreement_.generation();
  const bool of_agreement =
      std::holds_alternative<Propose>(message) || std::holds_alternative<Promise>(message) ||
      std::holds_alternative<Preempted>(message) || std::holds_alternative<Install>(message) ||
      std::holds_alternative<EndGeneration>(message);
  if (std::holds_alternative<StatusRequest>(message)) {
    out.send(from,
             StatusReply{.ballot = generation != nullptr ? generation->id : agreement_.promised(),
                         .step = agreement_.version().step,
                         .busy = generation != nullptr && is_busy()});
    agreement_.heard(from);
  } else if (const auto* here = std::get_if<StatusReply>(&message)) {
    agreement_.heard(from);
    if (handing_over_) taken_over(from, *here);
    if (!stragglers_.is_asking() || generation == nullptr || !generation->contains(from)) return;
    stragglers_.heard(from, here->busy);
    if (here->ballot != generation->id) disturb(now, {}, out);
  } else if (!of_agreement) {
    receive_own(now, from, message, generation, out);
  } else if (!leaving_ || handing_over_) {
    if (std::holds_alternative<Propose>(message)) wanted_ = true;
    agreement_.receive(now, from, message, planner(), out);
    const bool ended = generation != nullptr && agreement_.generation() == nullptr;
    if (ended) recoveries_.become_interrupted(now, order());
  }
}

void GenerationMode::peer_gone(Time now, PeerId peer, Effects& out) {
  std::erase(candidates_, peer);
  agreement_.set_candidates(now, candidates_);
  const Generation* generation = agreement_.generation();
  const bool concerns =
      generation == nullptr || (generation->contains(peer) && phase_ != Phase::done);
  if (concerns) disturb(now, {peer}, out);
}

// ---- The course ----

void GenerationMode::become_leaving(Time now, Effects& out) {
  if (phase_ == Phase::done) {
    leave_generation();
    return;
  }
  handing_over_ = wanted_ && !stuck_ && candidates_.size() > 1 && has_to_hand_over();
  if (handing_over_) {
    hand_over_until_ = now + hand_over_max;
    agreement_.set_leaving();
  }
  end_generation(now, {}, out);
}

/// While handing over we take part in ballots, but in no generation.
void GenerationMode::hand_over(Time now, Effects& out) {
  if (!handing_over_) return;
  agreement_.tick(now, planner(), out);
  if (agreement_.generation() != nullptr)
    end_generation(now, {}, out);  // Agreed on before we left.
  if (candidates_.size() < 2 || now >= hand_over_until_) handing_over_ = false;
}

void GenerationMode::tick(Time now, Membership& members, Effects& out, std::vector<Job>& jobs) {
  if (!started_ || finished_) return;
  set_candidates(now, members);
  if (!wanted_ && !leaving_ && is_barrier_open(now, candidates_.size())) {
    wanted_ = true;
    agreement_.disturb(now, {}, out);
  }
  if (wanted_ && !leaving_) {
    look_for_rebalance(now, out);
    watch_for_stragglers(now, out);
    agreement_.tick(now, planner(), out);
  }
  hand_over(now, out);
  const Generation* generation = agreement_.generation();
  if (generation == nullptr) {
    if (is_in_generation()) leave_generation();
  } else if (!leaving_ && generation->key() != generation_key_) {
    enter_generation(now, out);
  }
  go_on(now, out);
  next_job(now, jobs, out);
  end_lingering(now);
  if (phase_ == Phase::joining && is_in_generation() && is_ready()) {
    stragglers_.begin(now);
    become_training(now, order().size(), members, out);
  }
  if (phase_ == Phase::done && !leaving_ && step() < course_.steps) {
    enter(now, Phase::training, members, out);
  }
  if (phase_ == Phase::training && step() >= course_.steps) become_done(now, members, out);
  report(members);
}

Time GenerationMode::deadline() const {
  if (handing_over_) return std::min(agreement_.deadline(), hand_over_until_);
  if (!started_ || finished_ || leaving_) return never;
  const Time earliest = std::min(linger_deadline(), wanted_ ? never : barrier_deadline());
  if (!wanted_) return earliest;
  return std::min({earliest, agreement_.deadline(), own_deadline(),
                   rebalance_due_ ? never : rebalance_.deadline(),
                   stragglers_.deadline(is_waiting(), agreement_.patience())});
}

}  // namespace gv
