// Decides when training ends, and begins the last collective.
#include "peer/modes/finale.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.hpp"
#include "peer/modes/allreduce.hpp"

namespace gv {
namespace {

/// After this time, peers that still train are no longer waited for. They download the mean.
constexpr Duration waits_for_others = std::chrono::seconds(10);
/// The reports of other peers are added up at most this often, because adding takes a pass over all
/// of them.
constexpr Duration hears_every = std::chrono::milliseconds(20);

bool has_ended(Phase phase) { return phase == Phase::finishing || phase == Phase::done; }
bool is_done(Phase phase) { return phase == Phase::done; }

/// True if `is_so` holds for the phases of over a third of the live peers, not counting ourselves.
bool is_true_for_a_third(const Membership& members, bool (*is_so)(Phase)) {
  std::size_t count = 0;
  members.for_each_other([&](const Member& member) {
    const bool lives = member.state == MemberState::alive || member.state == MemberState::suspect;
    count += lives && is_so(member.progress.phase);
  });
  return 3 * count > members.view().size();
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
      work_(self, course.work) {
  options_.agreement.first_ballot = first_ballot_of_mean;
  options_.target = course.work.target.value;
}

std::uint64_t Finale::last_step() const {
  // A version has at most 10^12 steps, and no peer makes nearly as many.
  constexpr std::uint64_t most = 1'000'000'000'000;
  return std::min(work_.options().budget + 2, most);
}

bool Finale::is_due(Time now, bool in_step, const Membership& members, Effects& out) {
  if (!heard_ || now >= *heard_ + hears_every) {
    heard_ = now;
    if (!in_step) work_.hear(now, members);
    others_have_ended_ = has_ended_for_a_third(members);
  }
  work_.follow_clock(now, true, members);
  work_.follow_target(now, members, out);
  return work_.is_used_up() || work_.is_time_over(now) || work_.judges().is_reached() ||
         others_have_ended_;
}

bool Finale::has_ended_for_a_third(const Membership& members) const {
  return is_true_for_a_third(members, has_ended);
}

bool Finale::is_done_elsewhere(const Membership& members) const {
  return is_true_for_a_third(members, is_done);
}

bool Finale::ends(bool is_due, std::uint64_t step, const Course& course, const Membership& members,
                  Effects& out) {
  if (is_ending_ || mean_ || course.is_leaving() || course.winds_down() || course.holds_end()) {
    return false;
  }
  const bool is_late =
      course.phase() == Phase::joining && (is_done_elsewhere(members) || step >= last_step());
  if (!is_due && !is_late) return false;
  is_ending_ = true;
  if (is_due || step > 0) step_ = step;
  out.tell(FinaleBegan{.step = step, .samples = work_.counted()});
  return true;
}

bool Finale::follow(Time now, bool is_still, const Mode& mode, Course& course, Membership& members,
                    Effects& out, std::vector<Job>& jobs) {
  if (!mean_ && is_ending_ && is_still && !course.is_leaving()) {
    // After a while, the others begin without a peer that has not stopped.
    if (course.phase() != Phase::finishing) {
      still_since_ = now;
      course.enter(now, Phase::finishing, mode, members, out);
    }
    if (are_others_ready(now, members)) begin(now);
  }
  if (!mean_) return false;
  mean_->tick(now, members, out, jobs);
  if (mean_->phase() != Phase::done || course.phase() == Phase::done) return true;
  course.enter(now, Phase::done, mode, members, out);
  if (mean_->step() >= last_step()) {
    out.tell(FinaleDone{.step = mean_->step(), .samples = work_.own().samples});
  } else {
    out.tell(FinaleMissed{});
  }
  return true;
}

bool Finale::are_others_ready(Time now, const Membership& members) {
  has_waited_ = now >= *still_since_ + waits_for_others;
  const bool has_mean = step_ && *step_ >= last_step();
  if (has_mean || is_done_elsewhere(members)) return true;
  bool all_still = true;
  for (const PeerId peer : members.view().peers()) {
    const Member* member = members.find(peer);
    if (peer == self_ || member == nullptr || member->layout_hash != course_.layout_hash) continue;
    all_still &= member->progress.phase != Phase::training;
  }
  return step_ && (all_still || has_waited_);
}

void Finale::begin(Time now) {
  check(still_since_ && !mean_, "the mean begins once, and after we are still");
  CourseOptions course = course_;
  // A peer without a model can only download the mean.
  course.steps = step_ ? last_step() : last_step() - 2;
  course.work = {};
  course.save_every_steps = 0;
  course.wait_for_peers = 1;
  course.wait_max = {};
  course.tells = false;
  mean_ = std::make_unique<AllReduceMode>(self_, session_, course, options_, *signer_,
                                          draws_.fork("finale"));
  // Models that enter the mean have the same version, and a peer without such a model has an
  // earlier one.
  const std::uint64_t version = !step_                  ? last_step() - 2
                                : *step_ >= last_step() ? last_step()
                                                        : last_step() - 1;
  mean_->start(now, version, false);
}

bool Finale::is_for_mean(const Message& message) const {
  const GenerationId* ballot = ballot_of(message);
  // An answer about the sender's ballot goes to the part that has asked.
  const bool is_of_one = ballot != nullptr && Agreement::handles(message);
  return is_of_one ? ballot->number >= first_ballot_of_mean : mean_ != nullptr;
}

Time Finale::deadline() const {
  return still_since_ && !has_waited_ && !mean_ ? *still_since_ + waits_for_others : never;
}

}  // namespace gv
