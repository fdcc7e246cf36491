// Follows a peer's phases, jobs, running averages, lingering and leaving.
#include "peer/modes/course.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "peer/modes/mode.hpp"

namespace gv {

void Course::start(Time now, std::uint64_t step, bool joins_others) {
  check(!started_, "a replica starts once");
  started_ = true;
  joins_others_ = joins_others;
  waiting_since_ = now;
  replica_step_ = step;
  saved_step_ = step;
}

void Course::leave() {
  leaving_ = true;
  if (!started_) finished_ = true;
}

bool Course::is_over(const Membership& members, bool idle) const {
  return failed_ || (phase_ == Phase::done && jobs_under_way_ == 0 && idle &&
                     (linger_over_ || (!is_apart_ && others_done(members))));
}

bool Course::others_done(const Membership& members) const {
  bool are_done = true;
  members.for_each_other([&](const Member& member) {
    const bool may_come =
        is_live(member.state) || (options_.waits_for_dead && member.state == MemberState::dead);
    are_done &= !may_come || member.progress.phase == Phase::done;
  });
  return are_done;
}

void Course::enter(Time now, Phase phase, const Mode& mode, Membership& members, Effects& out) {
  phase_ = phase;
  if (phase == Phase::done) done_since_ = now;
  if (!options_.tells) return;
  members.set_progress(mode.progress());
  members.announce(out);
}

void Course::become_training(Time now, std::size_t peers, const Mode& mode, Membership& members,
                             Effects& out) {
  enter(now, Phase::training, mode, members, out);
  if (options_.tells) out.tell(TrainingBegan{.step = mode.step(), .peers = peers});
}

void Course::become_done(Time now, const Mode& mode, Membership& members, Effects& out) {
  enter(now, Phase::done, mode, members, out);
  if (options_.tells) out.tell(BudgetDone{.step = mode.step()});
}

bool Course::is_barrier_open(Time now, std::size_t present) {
  is_alone_ = present < 2;
  const std::size_t needed = std::max<std::size_t>(options_.wait_for_peers, joins_others_ ? 2 : 1);
  return present >= needed || now >= barrier_deadline();
}

void Course::end_lingering(Time now) {
  if (phase_ == Phase::done && now - done_since_ >= options_.linger) linger_over_ = true;
}

Time Course::linger_deadline() const {
  const bool lingers = phase_ == Phase::done && !leaving_ && !linger_over_;
  return lingers ? done_since_ + options_.linger : never;
}

void Course::post(Job job, std::vector<Job>& jobs) {
  job.number = ++job_number_;
  ++jobs_under_way_;
  jobs.push_back(std::move(job));
}

void Course::job_done(const JobDone& done) {
  check(jobs_under_way_ > 0 && done.job.number == job_number_ - jobs_under_way_ + 1,
        "jobs complete once and in the order they were asked for");
  --jobs_under_way_;
  learning_rate_ = done.learning_rate;
  replica_step_ = done.step;
  if (const auto* saved = first_of<result::Saved>(done.results)) {
    // A run may end with a mean whose version is beyond the replica's steps.
    saved_step_ = std::max(done.step, done.job.version.step);
    ++(saved->problem.empty() ? saves_.written : saves_.failed);
  }
  if (last_job_) finished_ = true;
}

bool Course::is_save_due(std::uint64_t step) const {
  return step > saved_step_ &&
         (step >= options_.steps ||
          (options_.save_every_steps > 0 && step >= saved_step_ + options_.save_every_steps));
}

void Course::go_back_to(std::uint64_t step) { saved_step_ = std::min(saved_step_, step); }

void Course::learn_from(const Score& score) {
  const double weight = std::exchange(scored_, true) ? recent_weight : 1;
  recent_loss_ += weight * (score.mean_loss() - recent_loss_);
  recent_accuracy_ += weight * (score.accuracy() - recent_accuracy_);
}

}  // namespace gv
