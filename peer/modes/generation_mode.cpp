// Candidates, ballots, stalls and renewals, and the turn of every event.
#include "peer/modes/generation_mode.hpp"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

namespace gv {
namespace {

/// Whoever leaves goes after this long, whether the others have what they need or not.
constexpr Duration hand_over_max = std::chrono::seconds(5);

}  // namespace

EpochMode::EpochMode(PeerId self, std::uint64_t session, const CourseOptions& course,
                     const RingAgreement::Options& agreement)
    : Mode(self, course), agreement_(self, session, agreement), stalls_(self), renewal_(self) {}

// ---- Epochs ----

void EpochMode::set_candidates(Time now, Membership& members) {
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

void EpochMode::enter_epoch(Time now, Effects& out) {
  leave_epoch();
  const Epoch& epoch = *agreement_.epoch();
  ++epochs_;
  epoch_key_ = epoch.key();
  stalls_.enter_epoch(now);
  renewal_.enter_epoch(now, epoch.order.size());
  begin_epoch(now, epoch, out);
}

void EpochMode::leave_epoch() {
  epoch_key_ = 0;
  renewal_due_ = false;
  abandon();
  stalls_.leave_epoch();
  renewal_.rest();
}

/// For all, and for us at once.
void EpochMode::end_epoch(Time now, const std::vector<PeerId>& blamed, Effects& out) {
  agreement_.disturb(now, blamed, out);
  leave_epoch();
}

/// Something is wrong.
void EpochMode::disturb(Time now, const std::vector<PeerId>& blamed, Effects& out) {
  if (!wanted_ || agreement_.farewell() != nullptr) return;
  if (agreement_.epoch() != nullptr) {
    interruptions_.become_interrupted(now, order());
    Event ended{.name = "epoch_ended"};
    if (!blamed.empty()) ended.peer = blamed.front();
    out.events.push_back(std::move(ended));
  }
  end_epoch(now, blamed, out);
}

void EpochMode::look_for_renewal(Time now, Effects& out) {
  if (agreement_.epoch() == nullptr) return;
  if (phase_ == Phase::done) {
    renewal_.rest();
    return;
  }
  const Epoch& epoch = *agreement_.epoch();
  renewal_due_ = renewal_due_ || renewal_.newcomers_wait(now, agreement_, candidates_, out) ||
                 (is_planned() && renewal_.ballot_is_due(epoch, candidates_, operations_)) ||
                 epoch.ruling < agreement_.ruling();
  if (renewal_due_ && is_between_operations(now)) end_epoch(now, {}, out);
}

void EpochMode::watch_for_stalls(Time now, Effects& out) {
  if (const auto silent = silent_source(now, out)) disturb(now, {*silent}, out);
  const Epoch* epoch = agreement_.epoch();
  if (epoch == nullptr) return;
  if (!is_waiting()) {
    stalls_.rest(now);
    return;
  }
  const auto lost = stalls_.watch(now, *epoch, progress(), agreement_.patience(), out);
  if (lost) disturb(now, {lost->begin(), lost->end()}, out);
}

void EpochMode::operation_done(Time now, std::uint64_t from_step, std::uint64_t steps,
                               Effects& out) {
  ++operations_;
  stalls_.operation_done(now, operations_ > 1 && !interruptions_.is_interrupted());
  renewal_.operation_done(now);
  if (operation_seconds() > 0) {
    steps_per_second_ = static_cast<double>(steps) / operation_seconds();
  }
  interruptions_.become_resumed(now, order(), from_step, out);
}

void EpochMode::become_unfit(std::uint64_t step, Effects& out) {
  become_stuck({.name = "gradient_not_finite", .numbers = {{"step", static_cast<double>(step)}}},
               out);
}

void EpochMode::become_stuck(Event why, Effects& out) {
  stuck_ = true;
  out.events.push_back(std::move(why));
}

// ---- What comes ----

void EpochMode::receive(Time now, PeerId from, const Message& message, Membership& members,
                        Effects& out) {
  if (!started_ || !members.view().contains(from)) return;
  const Epoch* epoch = agreement_.epoch();
  const bool of_agreement =
      std::holds_alternative<Propose>(message) || std::holds_alternative<Confirm>(message) ||
      std::holds_alternative<Overtaken>(message) || std::holds_alternative<Start>(message) ||
      std::holds_alternative<Halt>(message);
  if (std::holds_alternative<Check>(message)) {
    out.send(from, Here{.ballot = epoch != nullptr ? epoch->id : agreement_.promised(),
                        .operation = agreement_.standing().operation,
                        .busy = epoch != nullptr && is_busy()});
    agreement_.heard(from);
  } else if (const auto* here = std::get_if<Here>(&message)) {
    agreement_.heard(from);
    if (handing_over_) taken_over(from, *here);
    if (!stalls_.is_asking() || epoch == nullptr || !epoch->contains(from)) return;
    stalls_.heard(from, here->busy);
    if (here->ballot != epoch->id) disturb(now, {}, out);
  } else if (!of_agreement) {
    receive_own(now, from, message, epoch, out);
  } else if (!leaving_ || handing_over_) {
    if (std::holds_alternative<Propose>(message)) wanted_ = true;
    agreement_.receive(now, from, message, planner(), out);
    const bool ended = epoch != nullptr && agreement_.epoch() == nullptr;
    if (ended) interruptions_.become_interrupted(now, order());
  }
}

void EpochMode::peer_gone(Time now, PeerId peer, Effects& out) {
  std::erase(candidates_, peer);
  agreement_.set_candidates(now, candidates_);
  const Epoch* epoch = agreement_.epoch();
  const bool concerns = epoch == nullptr || (epoch->contains(peer) && phase_ != Phase::done);
  if (concerns) disturb(now, {peer}, out);
}

// ---- The course ----

void EpochMode::become_leaving(Time now, Effects& out) {
  if (phase_ == Phase::done) {
    leave_epoch();
    return;
  }
  handing_over_ = wanted_ && !stuck_ && candidates_.size() > 1 && has_to_hand_over();
  if (handing_over_) {
    hand_over_until_ = now + hand_over_max;
    agreement_.set_leaving();
  }
  end_epoch(now, {}, out);
}

/// Takes part in ballots, and in no epoch.
void EpochMode::hand_over(Time now, Effects& out) {
  if (!handing_over_) return;
  agreement_.tick(now, planner(), out);
  if (agreement_.epoch() != nullptr) end_epoch(now, {}, out);  // Agreed on before we left.
  if (candidates_.size() < 2 || now >= hand_over_until_) handing_over_ = false;
}

void EpochMode::tick(Time now, Membership& members, Effects& out, std::vector<Job>& jobs) {
  if (!started_ || finished_) return;
  set_candidates(now, members);
  if (!wanted_ && !leaving_ && is_barrier_open(now, candidates_.size())) {
    wanted_ = true;
    agreement_.disturb(now, {}, out);
  }
  if (wanted_ && !leaving_) {
    look_for_renewal(now, out);
    watch_for_stalls(now, out);
    agreement_.tick(now, planner(), out);
  }
  hand_over(now, out);
  const Epoch* epoch = agreement_.epoch();
  if (epoch == nullptr) {
    if (is_in_epoch()) leave_epoch();
  } else if (!leaving_ && epoch->key() != epoch_key_) {
    enter_epoch(now, out);
  }
  go_on(now, out);
  next_job(now, jobs, out);
  end_lingering(now);
  if (phase_ == Phase::joining && is_in_epoch() && is_ready()) {
    stalls_.begin(now);
    become_training(now, order().size(), members, out);
  }
  if (phase_ == Phase::done && !leaving_ && step() < course_.steps) {
    enter(now, Phase::training, members, out);
  }
  if (phase_ == Phase::training && step() >= course_.steps) become_done(now, members, out);
  report(members);
}

Time EpochMode::deadline() const {
  if (handing_over_) return std::min(agreement_.deadline(), hand_over_until_);
  if (!started_ || finished_ || leaving_) return never;
  const Time earliest = std::min(linger_deadline(), wanted_ ? never : barrier_deadline());
  if (!wanted_) return earliest;
  return std::min({earliest, agreement_.deadline(), own_deadline(),
                   renewal_due_ ? never : renewal_.deadline(),
                   stalls_.deadline(is_waiting(), agreement_.patience())});
}

}  // namespace gv
