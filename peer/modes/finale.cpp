// Decides when training ends, and begins the last collective.
#include "peer/modes/finale.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.hpp"
#include "peer/modes/allreduce.hpp"

namespace gv {
namespace {

/// Peers that train on are waited for no longer. They download the mean.
constexpr Duration waits_for_others = std::chrono::seconds(10);
/// Reports of other peers are added up at most this often, because that takes a pass over all.
constexpr Duration hears_every = std::chrono::milliseconds(20);

bool has_ended(Phase phase) { return phase == Phase::finishing || phase == Phase::done; }
bool is_done(Phase phase) { return phase == Phase::done; }

/// True if more than a third of the live peers are in such a phase. We do not count ourselves.
bool is_true_for_a_third(const Membership& members, bool (*is_so)(Phase)) {
  std::size_t count = 0;
  for (const PeerId peer : members.view().peers()) {
    const Member* member = members.find(peer);
    count += peer != members.self().id && member != nullptr && is_so(member->progress.phase);
  }
  return 3 * count > members.view().size();
}

}  // namespace

Finale::Finale(PeerId self, std::uint64_t session, const CourseOptions& course,
               FinaleOptions options, const Signer& signer, const Rng& draws)
    : self_(self),
      session_(session),
      course_(course),
      options_(std::move(options.mean)),
      signer_(&signer),
      draws_(draws),
      work_(options.work) {}

std::uint64_t Finale::last_step() const {
  return work_.options().budget / work_.options().batch + 2;
}

bool Finale::is_due(Time now, const Membership& members) {
  if (!heard_ || now >= *heard_ + hears_every) {
    heard_ = now;
    work_.hear(now, members);
  }
  return work_.is_used_up() || has_ended_for_a_third(members);
}

bool Finale::has_ended_for_a_third(const Membership& members) const {
  return is_true_for_a_third(members, has_ended);
}

bool Finale::is_done_elsewhere(const Membership& members) const {
  return is_true_for_a_third(members, is_done);
}

void Finale::hold_still(std::optional<std::uint64_t> step) {
  is_ending_ = true;
  step_ = step;
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
  check(still_since_ && !mean_, "the mean begins once, and after we hold still");
  CourseOptions course = course_;
  // Without a model there is nothing to do but to download the mean.
  course.steps = step_ ? last_step() : last_step() - 2;
  course.save_every_steps = 0;
  course.wait_for_peers = 1;
  course.wait_max = {};
  course.tells = false;
  course.waits_for_dead = true;
  mean_ = std::make_unique<AllReduceMode>(self_, session_, course, options_, *signer_,
                                          draws_.fork("finale"));
  // Models that enter the mean have one version, and a peer without one has an earlier.
  const std::uint64_t version = !step_                  ? last_step() - 2
                                : *step_ >= last_step() ? last_step()
                                                        : last_step() - 1;
  mean_->start(now, version, false);
}

Time Finale::deadline() const {
  return still_since_ && !has_waited_ && !mean_ ? *still_since_ + waits_for_others : never;
}

void Finale::add_to(ModeReport& report) const {
  using enum ReportMetric::Kind;
  const auto budget = static_cast<double>(work_.options().budget);
  const double counted = std::min(budget, static_cast<double>(work_.counted()));
  const double pace = work_.pace();
  report.sections.push_back({.name = "work",
                             .figures = {{"budget", work_.options().budget},
                                         {"counted", work_.counted()},
                                         {"own", work_.own().samples},
                                         {"samples_per_second", pace},
                                         {"factor", work_.factor()}}});
  report.metrics.push_back(
      {"work_counted", gauge, "Samples that all peers are known to have trained.", counted});
  report.metrics.push_back(
      {"update_factor", gauge, "Factor on this peer's updates.", work_.factor()});
  const double share = counted / budget;
  report.columns.push_back({"work", fmt::format("{:.1f} %", 100 * share)});
  report.line += fmt::format("  work {:.1f} %", 100 * share);
  std::string left;
  if (pace > 0 && counted < budget)
    left = fmt::format(", about {:.3g} s left", (budget - counted) / pace);
  report.details.push_back(fmt::format("work {:.1f} %: {:.4g} of {:.4g} k samples, {:.3g} k/s{}",
                                       100 * share, counted / 1000, budget / 1000, pace / 1000,
                                       left));
  const double wanted = work_.factor_wanted();
  if (work_.options().weigh_max > 1) {
    report.details.push_back(
        wanted > work_.options().weigh_max
            ? fmt::format("updates times {:.2f}; {:.2f} would be needed, so this peer's samples "
                          "count {:.2f} of what others' do",
                          work_.factor(), wanted, work_.factor() / wanted)
            : fmt::format("updates times {:.2f}, because of this peer's data and pace",
                          work_.factor()));
  }
}

}  // namespace gv
