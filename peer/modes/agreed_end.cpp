// Asks for ballots about the end, and keeps their decision.
#include "peer/modes/agreed_end.hpp"

#include <chrono>

namespace gv {
namespace {

/// The clocks of peers differ by less than this, so that the first ballot about the end succeeds.
constexpr Duration ends_ahead = std::chrono::seconds(1);
/// All peers have the verdicts of others within this time.
constexpr Duration verdicts_take = std::chrono::milliseconds(250);
/// Another ballot about the end is asked for only after this time.
constexpr Duration end_asked_every = std::chrono::seconds(1);

}  // namespace

void AgreedEnd::follow(Time now, const Course& course, const Membership& members, SwarmWork& work,
                       Generations& generations, Effects& out, const std::vector<PeerId>* panel) {
  if (!work.is_on() || course.phase() == Phase::done) return;
  const bool trains = course.phase() == Phase::training;
  work.follow_clock(now, trains, members);
  if (!trains) return;
  work.follow_target(now, members, out, panel);
  const Judges& judges = work.judges();
  generations.agreement().set_ends(work.is_time_over(now, ends_ahead) || judges.is_reached());
  const bool is_over = work.is_time_over(now) || judges.is_reached_for(now, verdicts_take);
  // A ballot may take longer than the time between two ballots. A decision that is there is used
  // first.
  const bool may_ask = generations.is_in_one() && !at_;
  if (is_over && may_ask && now >= asked_at_ + end_asked_every) {
    asked_at_ = now;
    generations.renew();
  }
}

void AgreedEnd::enter(const Generation& generation, const SwarmWork& work, Agreement& agreement) {
  if (!work.is_on()) return;
  at_ = generation.ends ? std::optional(generation.version.step) : std::nullopt;
  agreement.set_ends(generation.ends);
}

void AgreedEnd::follow_budget(Time now, std::uint64_t together, SwarmWork& work, Course& course,
                              const ModelVersion& version) const {
  if (!work.is_on()) return;
  work.agree_on(now, version.samples);
  course.set_steps(at_.value_or(version.step + work.steps_left_of(together)));
}

}  // namespace gv
