// Asks for ballots about the end of a run, and keeps their decision.
#include "peer/modes/agreed_end.hpp"

#include <chrono>
#include <utility>

#include "peer/modes/mean_end.hpp"

namespace gv {
namespace {

/// In a ballot, a peer also votes for the end if the run's time will be over within this span. The
/// peers' clocks differ by less than that, so the first ballot about the end succeeds.
constexpr Duration ends_ahead = std::chrono::seconds(1);
/// A verdict reaches all peers within this time.
constexpr Duration verdicts_take = std::chrono::milliseconds(250);
/// The shortest time between two requests for a ballot about the end.
constexpr Duration end_asked_every = std::chrono::seconds(1);
/// Honest peers disagree by less than this about the time at which the run ends.
constexpr Duration tolerance = std::chrono::seconds(3);
/// Like `tolerance`, for a newcomer. A newcomer knows the run's time only from reports, which are
/// older than a reading of its own clock would be.
constexpr Duration tolerance_of_told = 2 * tolerance;
/// The shortest time between two readings of the other peers' reports. Each reading is a pass over
/// all members.
constexpr Duration told_every = std::chrono::milliseconds(250);

}  // namespace

void AgreedEnd::follow(Time now, const Course& course, const Membership& members, SwarmWork& work,
                       Generations& generations, Effects& out, const std::vector<PeerId>* panel) {
  view_ = EndView::open;
  if (!work.is_on()) return;
  if (course.phase() == Phase::done) {
    // Other peers may disagree about whether a target is reached, so only the run's time limit can
    // end the run for good.
    if (!done_at_) done_at_ = now;
    const bool is_over = at_ && work.is_time_over(now, tolerance) && now >= *done_at_ + tolerance;
    if (is_over) view_ = EndView::over;
    return;
  }
  done_at_.reset();
  const bool trains = course.phase() == Phase::training;
  work.follow_clock(now, trains, members);
  if (trains) work.follow_target(now, members, out, panel);
  view_ = seen(now, trains, members, work);
  if (!trains) {
    if (at_) generations.agreement().set_ends(true);
    return;
  }
  const Judges& judges = work.judges();
  generations.agreement().set_ends(work.is_time_over(now, ends_ahead) || judges.is_reached());
  const bool is_over = work.is_time_over(now) || judges.is_reached_for(now, verdicts_take);
  // A ballot may take longer than the time between two requests. If a decision exists already, we
  // must act on it before we request another ballot.
  const bool may_ask = generations.is_in_one() && !at_;
  if (is_over && may_ask && now >= asked_at_ + end_asked_every) {
    asked_at_ = now;
    generations.renew();
  }
}

/// Returns our view of the end. Votes of a third of the voters, or fewer, cannot make the end look
/// near. A peer that does not train yet has no verdicts, so it does not know whether the target is
/// reached.
EndView AgreedEnd::seen(Time now, bool trains, const Membership& members, const SwarmWork& work) {
  const Judges& judges = work.judges();
  const bool knows = trains && work.knows_clock();
  if (knows && work.is_time_over(now, -tolerance)) return EndView::over;
  if (knows && judges.is_reached_for(now, tolerance)) return EndView::reached;
  const bool is_near = work.is_time_over(now, tolerance) || 3 * judges.votes() > judges.voters();
  if (is_near) return EndView::open;
  if (knows) return EndView::far;
  const bool cannot_tell = !trains && judges.is_on();
  return cannot_tell || is_told_of_end(now, members, work) ? EndView::open : EndView::far;
}

/// True if, according to the other peers' reports, the run's time is over or nearly over.
bool AgreedEnd::is_told_of_end(Time now, const Membership& members, const SwarmWork& work) {
  const Duration wall = work.options().wall;
  if (wall == Duration{}) return false;
  if (!told_at_ || now >= *told_at_ + told_every) {
    told_at_ = now;
    is_told_ = work.told_clock(members) + tolerance_of_told >= wall;
  }
  return is_told_;
}

void AgreedEnd::enter(const Generation& generation, const SwarmWork& work, Agreement& agreement) {
  if (!work.is_on()) return;
  at_ = generation.ends ? std::optional(generation.version.step) : std::nullopt;
  agreement.set_ends(generation.ends);
}

void AgreedEnd::follow_budget(Time now, std::uint64_t together, SwarmWork& work, Course& course,
                              const ModelVersion& version) {
  if (!work.is_on()) return;
  work.agree_on(now, version.samples);
  const std::uint64_t left = work.steps_left_of(together);
  if (!std::exchange(has_begun_, true) && left > 0) {
    const std::optional<RunEnd>& end = work.options().resumed.end;
    if (end && is_over_for(work.options(), *end)) at_ = version.step;
  }
  course.set_steps(at_.value_or(version.step + left));
}

SwarmNote AgreedEnd::note(Time now, bool is_end, const SwarmWork& work) const {
  SwarmNote note = work.note();
  if (!is_end) return note;
  note.end = RunEnd{.budget = work.options().budget,
                    .wall = work.options().wall,
                    .target = work.options().target.value,
                    .is_used_up = work.is_used_up(),
                    .is_time_over = work.is_time_over(now, ends_ahead),
                    .is_target_reached = work.judges().is_reached()};
  return note;
}

}  // namespace gv
