// Decides when training ends, and begins the final collective.
#include "peer/modes/finale.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "peer/modes/allreduce.hpp"
#include "peer/modes/vouched.hpp"

namespace gv {
namespace {

/// After this time we no longer wait for peers that still train. They will download the mean.
constexpr Duration waits_for_others = std::chrono::seconds(10);
/// The shortest time between two passes over all peers that add up their reports.
constexpr Duration hears_every = std::chrono::milliseconds(20);
/// The clocks of peers that end together differ by less than this.
constexpr Duration ends_apart = std::chrono::seconds(1);
/// The largest number of steps in a version. No peer comes near it.
constexpr std::uint64_t last_step_max = 1'000'000'000'000;

bool is_done(Phase phase) { return phase == Phase::done; }

/// True if `is_so` holds for the phases of more than a third of all live peers. Our own phase does
/// not count.
bool is_true_for_a_third(const Membership& members, bool (*is_so)(Phase)) {
  std::size_t count = 0;
  members.for_each_report([&](const Member& member, const Progress& progress) {
    count += is_live(member.state) && is_so(progress.phase);
  });
  return 3 * count > members.view().size();
}

/// Returns the largest number that more than a third of the live peers, including ourselves, have
/// reached according to their reports. The result is never below `own`. Reports above `most` count
/// as `most`.
std::uint64_t supported(std::uint64_t own, std::uint64_t most, const Membership& members,
                        const std::function<std::uint64_t(const Progress&)>& number) {
  std::vector<std::uint64_t> reports{own};
  members.for_each_report([&](const Member& member, const Progress& progress) {
    if (is_live(member.state)) reports.push_back(std::min(number(progress), most));
  });
  return std::max(own, vouched(std::move(reports)));
}

}  // namespace

Finale::Finale(PeerId self, std::uint64_t session, const CourseOptions& course,
               const AllReduceOptions& mean, const Signer& signer, const Rng& draws)
    : self_(self),
      session_(session),
      course_(course),
      options_(mean),
      signer_(&signer),
      draws_(draws),
      work_(self, course.work),
      end_{.budget = course.work.budget,
           .wall = course.work.wall,
           .target = course.work.target.value} {
  options_.agreement.first_ballot = first_ballot_of_mean;
  options_.target = course.work.target.value;
}

std::uint64_t Finale::last_step() const {
  return std::min(work_.options().budget + 2, last_step_max);
}

bool Finale::is_due(Time now, bool in_step, const Membership& members, Effects& out) {
  if (!heard_ || now >= *heard_ + hears_every) {
    heard_ = now;
    if (!in_step) work_.hear(now, members);
    others_have_ended_ = has_ended_for_a_third(members);
  }
  work_.follow_clock(now, true, members);
  work_.follow_target(now, members, out);
  end_.is_used_up = work_.is_used_up();
  end_.is_time_over = work_.is_time_over(now, ends_apart);
  end_.is_target_reached = work_.judges().is_reached();
  return end_.is_used_up || work_.is_time_over(now) || end_.is_target_reached || others_have_ended_;
}

bool Finale::has_ended_for_a_third(const Membership& members) const {
  return is_true_for_a_third(members, has_ended);
}

bool Finale::is_done_elsewhere(const Membership& members) const {
  return is_true_for_a_third(members, is_done);
}

bool Finale::ends(bool is_due, std::uint64_t step, Course& course, const Membership& members,
                  Effects& out) {
  if (is_ending_ || mean_ || course.is_leaving() || course.winds_down() || course.holds_end()) {
    return false;
  }
  const bool joins = course.phase() == Phase::joining;
  const auto& resumed = course_.work.resumed.end;
  const bool has_mean = joins && resumed && is_over_for(course_.work, *resumed);
  if (!is_due && !has_mean && !(joins && is_done_elsewhere(members))) return false;
  is_ending_ = true;
  course.begin_end();
  has_mean_ = has_mean;
  if (is_due || has_mean || step > 0) step_ = step;
  out.tell(FinaleBegan{.step = step, .samples = work_.counted()});
  return true;
}

bool Finale::follow(Time now, bool is_still, const Mode& mode, Course& course, Membership& members,
                    Effects& out, std::vector<Job>& jobs) {
  if (!mean_ && is_ending_ && is_still && !course.is_leaving()) {
    // If a peer does not stop, the others wait for it only for a while, and then begin without it.
    if (course.phase() != Phase::finishing) {
      still_since_ = now;
      course.enter(now, Phase::finishing, mode, members, out);
    }
    if (are_others_ready(now, members)) begin(now, course, members);
  }
  if (!mean_) return false;
  mean_->tick(now, members, out, jobs);
  if (mean_->phase() != Phase::done || course.phase() == Phase::done) return true;
  course.enter(now, Phase::done, mode, members, out);
  if (mean_->step() >= last_step()) {
    out.tell(FinaleDone{.step = end_step_, .samples = work_.own().samples});
  } else {
    out.tell(FinaleMissed{});
  }
  return true;
}

bool Finale::are_others_ready(Time now, const Membership& members) {
  has_waited_ = now >= *still_since_ + waits_for_others;
  if (has_mean_ || is_done_elsewhere(members)) return true;
  bool all_still = true, is_alone = true;
  for (const PeerId peer : members.view().peers()) {
    const Member* member = members.find(peer);
    if (peer == self_ || member == nullptr || member->layout_hash != course_.layout_hash) continue;
    is_alone = false;
    all_still &= member->progress.phase != Phase::training;
  }
  // Without a model of our own, only the others could give us the mean.
  return step_ ? all_still || has_waited_ : is_alone && has_waited_;
}

/// Returns the step and the note with which our replica ends. A peer that came too late to count
/// samples takes over the others' counts.
MeanEnd Finale::mean_end(const Course& course, const Membership& members) const {
  MeanEnd end{.version_step = last_step(), .note = work_.note()};
  // At step 0 the mean would be mistaken for a first model.
  const std::uint64_t own = std::max<std::uint64_t>(1, course.replica_step());
  end.step = has_mean_ ? own : supported(own, last_step_max, members, &Progress::step);
  const auto counted = [](const Progress& progress) {
    return progress.work ? progress.work->counted : std::uint64_t{0};
  };
  end.note.samples = supported(end.note.samples, course_.work.budget, members, counted);
  const auto ran_ms = [](const Progress& progress) {
    return progress.work ? progress.work->ran_ms : std::uint64_t{0};
  };
  const std::uint64_t ran = to_ms(end.note.ran);
  const std::uint64_t most = supported(ran, to_ms(course_.work.wall), members, ran_ms);
  if (most > ran) end.note.ran = std::chrono::milliseconds(most);
  end.note.end = end_;
  return end;
}

void Finale::begin(Time now, const Course& own, const Membership& members) {
  check(still_since_ && !mean_, "the mean begins once, and after we are still");
  CourseOptions course = course_;
  // If our model does not enter the mean, we end unless we download the mean or another peer's
  // model that enters it.
  course.steps = step_ ? last_step() : last_step() - 2;
  course.work = {};
  course.save_every_steps = 0;
  course.wait_for_peers = 1;
  course.wait_max = course.alone_after = {};
  course.tells = false;
  if (has_mean_) course.version = version_of(*course_.work.resumed.end, last_step());
  AllReduceOptions options = options_;
  // Our model enters the mean, so other peers will have all chunks that it was trained on. The
  // limit is not `step_`, because the job that ran when the end began may have trained a later
  // chunk.
  constexpr std::uint64_t all = std::numeric_limits<std::uint64_t>::max();
  if (Ledger* ledger = work_.ledger(); ledger != nullptr && step_) ledger->kept(all);
  options.end = mean_end(own, members);
  end_step_ = options.end->step;
  mean_ = std::make_unique<AllReduceMode>(self_, session_, course, options, *signer_,
                                          draws_.fork("finale"));
  // Models that enter the mean have the same version. If ours does not enter it, our version is
  // earlier.
  const std::uint64_t version = !step_      ? last_step() - 2
                                : has_mean_ ? last_step()
                                            : last_step() - 1;
  mean_->start(now, version, false);
}

bool Finale::is_for_mean(const Message& message) const {
  const GenerationId* ballot = ballot_of(message);
  // A message about a ballot belongs to the mode or to the mean, depending on the ballot's number.
  const bool is_of_one = ballot != nullptr && Agreement::handles(message);
  return is_of_one ? ballot->number >= first_ballot_of_mean : mean_ != nullptr;
}

Time Finale::deadline() const {
  return still_since_ && !has_waited_ && !mean_ ? *still_since_ + waits_for_others : never;
}

}  // namespace gv
