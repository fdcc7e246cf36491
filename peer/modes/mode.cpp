// What all modes share: barrier, jobs, averages, linger, leave.
#include "peer/modes/mode.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"

namespace gv {

Mode::Mode(PeerId self, const CourseOptions& course) : self_(self), course_(course) {}

void Mode::start(Time now, std::uint64_t step, bool joins_others, Membership& members, Effects& out,
                 std::vector<Job>& jobs) {
  check(!started_, "a replica starts once");
  started_ = true;
  joins_others_ = joins_others;
  waiting_since_ = now;
  saved_step_ = step;
  begin_at(step);
  report(members);
  tick(now, members, out, jobs);
}

void Mode::complete(Time now, JobDone done, Membership& members, Effects& out,
                    std::vector<Job>& jobs) {
  check(jobs_under_way_ > 0 && done.number == job_number_ - jobs_under_way_ + 1,
        "jobs complete once and in the order they were asked for");
  --jobs_under_way_;
  learning_rate_ = done.learning_rate;
  if (done.saved) {
    saved_step_ = done.step;
    ++(done.save_problem.empty() ? saves_.written : saves_.failed);
  }
  take(now, std::move(done), members, out);
  if (last_job_) {
    finished_ = true;
    report(members);
    return;
  }
  tick(now, members, out, jobs);
}

Problems Mode::switch_to(Time, std::string_view) {
  return {{.place = "run.mode",
           .reason = "these peers cannot switch while they run",
           .remedy = "run.mode = \"mixing\" can: it has rounds on which all agree"}};
}

void Mode::leave(Time now, Membership& members, Effects& out, std::vector<Job>& jobs) {
  if (leaving_) return;
  leaving_ = true;
  become_leaving(now, out);
  if (!started_) {
    finished_ = true;
    return;
  }
  tick(now, members, out, jobs);
}

bool Mode::is_over(const Membership& members) const {
  const bool needed = !is_idle() || !(linger_over_ || others_done(members));
  return stuck_ || (phase_ == Phase::done && jobs_under_way_ == 0 && !needed);
}

bool Mode::others_done(const Membership& members) const {
  return std::ranges::all_of(members.view().peers(), [&](PeerId peer) {
    const Member* member = members.find(peer);
    return peer == self_ || member == nullptr || member->progress.phase == Phase::done;
  });
}

void Mode::enter(Time now, Phase phase, Membership& members, Effects& out) {
  phase_ = phase;
  if (phase == Phase::done) done_since_ = now;
  report(members);
  members.announce(out);
}

void Mode::become_training(Time now, std::size_t peers, Membership& members, Effects& out) {
  enter(now, Phase::training, members, out);
  out.tell(TrainingBegan{.step = step(), .peers = peers});
}

void Mode::become_done(Time now, Membership& members, Effects& out) {
  enter(now, Phase::done, members, out);
  out.tell(BudgetDone{.step = step()});
}

void Mode::report(Membership& members) const {
  members.set_progress({.step = step(),
                        .steps_per_second = static_cast<float>(steps_per_second()),
                        .phase = phase_,
                        .trial = trial()});
}

void Mode::post(Job job, std::vector<Job>& jobs) {
  job.number = ++job_number_;
  ++jobs_under_way_;
  jobs.push_back(std::move(job));
}

void Mode::learn_from(const Score& score) {
  const double weight = std::exchange(scored_, true) ? recent_weight : 1;
  recent_loss_ += weight * (score.mean_loss() - recent_loss_);
  recent_accuracy_ += weight * (score.accuracy() - recent_accuracy_);
}

bool Mode::is_barrier_open(Time now, std::size_t present) const {
  const std::size_t needed = std::max<std::size_t>(course_.wait_for_peers, joins_others_ ? 2 : 1);
  return present >= needed || now >= barrier_deadline();
}

void Mode::end_lingering(Time now) {
  if (phase_ == Phase::done && now - done_since_ >= course_.linger) linger_over_ = true;
}

Time Mode::linger_deadline() const {
  const bool lingers = phase_ == Phase::done && !leaving_ && !linger_over_;
  return lingers ? done_since_ + course_.linger : never;
}

bool Mode::is_save_due(std::uint64_t step) const {
  return step > saved_step_ &&
         (step >= course_.steps ||
          (course_.save_every_steps > 0 && step >= saved_step_ + course_.save_every_steps));
}

}  // namespace gv
