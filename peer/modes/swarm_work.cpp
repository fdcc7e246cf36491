// Counts samples, estimates the progress between reports, and scales updates.
#include "peer/modes/swarm_work.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "peer/modes/vouched.hpp"

namespace gv {
namespace {

/// The time constant, in seconds, over which paces are averaged.
constexpr double memory_s = 10;
/// If a peer's last report is older than this, we no longer assume that the peer continues.
constexpr Duration goes_on_for = std::chrono::seconds(10);
/// Another peer's mean pace counts once we have known the peer for this long.
constexpr Duration known_for = std::chrono::seconds(10);
/// Peers say hello during this time after our start. Until it has passed, we do not rely on the
/// reports of the first few peers.
constexpr Duration meeting = std::chrono::seconds(2);
/// While a peer trains, it reads the other peers' reports far more often than this. A longer gap
/// means that this process was stopped.
constexpr Duration absent_after = std::chrono::seconds(3);
/// If a total is above ours by more than this many seconds of work, reports under way cannot
/// explain the difference.
constexpr double behind_s = 10;
/// We believe that a peer's count grows at most this many times as fast as the fastest measured
/// pace.
constexpr double faster_max = 4;
/// The interval at which we compare the training times that peers report. In between, the time
/// advances with our own clock.
constexpr Duration clock_heard_every = std::chrono::seconds(1);
/// If the number of all samples is unknown, a shard counts as at most this many times the median
/// size.
constexpr std::uint64_t larger_max = 16;
/// The weight of the newest force's delay in the running mean of delays.
constexpr double newest_force = 0.1;
/// The largest number of announcements that all peers together make while a budget is used up.
constexpr std::uint64_t announcements = 100;

}  // namespace

SwarmWorkOptions without_ledger(SwarmWorkOptions options) {
  options.chunk_steps = 0;
  return options;
}

SwarmWork::SwarmWork(PeerId self, const SwarmWorkOptions& options)
    : options_(options),
      samples_(options.own),
      announced_(options.own),
      base_(options.resumed.samples - std::min(options.own, options.resumed.samples)),
      ran_(options.resumed.ran),
      judges_(self, options.target) {
  if (options.chunk_steps == 0 || options.budget == 0) return;
  const std::uint64_t steps = (options.budget + options.batch - 1) / options.batch;
  const std::uint64_t chunks = (steps + options.chunk_steps - 1) / options.chunk_steps;
  ledger_.emplace(Ledger::Options{.self = self,
                                  .chunks = chunks,
                                  .steps = options.chunk_steps,
                                  .last_steps = steps - (chunks - 1) * options.chunk_steps});
  restore_ledger(options.resumed);
  restored_ = {.done = counted(), .begun = begun()};
}

/// Continues with the ledger of the note. If there is none, or if its chunks had another size,
/// marks the first samples as done, up to the number that all peers had trained on.
void SwarmWork::restore_ledger(const SwarmNote& note) {
  const std::uint64_t chunk = options_.batch * options_.chunk_steps;
  const std::uint64_t chunks = ledger_->options().chunks;
  if (note.ledger && note.chunk_samples == chunk) {
    // The last chunk of a smaller budget may have been shorter than the chunk is now.
    const bool is_larger = note.budget > 0 && note.budget < options_.budget;
    return ledger_->restore(*note.ledger, is_larger ? note.budget / chunk : chunks);
  }
  std::uint64_t samples = note.samples;
  if (note.ledger) {
    samples = note.ledger->whole * note.chunk_samples;
    if (note.budget > 0) samples = std::min(samples, note.budget);
  }
  ledger_->restore({.whole = samples / chunk, .mine = {}, .done = {}, .begun = {}}, chunks);
}

/// Samples that we have trained on in chunks that are not known to be done.
std::uint64_t SwarmWork::begun() const { return ledger_->begun_steps() * options_.batch; }

WorkDone SwarmWork::own() const {
  return {.samples = samples_,
          .data = options_.data,
          .counted = counted(),
          .ran_ms = to_ms(ran_),
          .ledger = ledger_ ? std::optional(ledger_->entry()) : std::nullopt,
          .verdict = judges_.verdict()};
}

SwarmNote SwarmWork::note(std::uint64_t more) const {
  return {.samples = counted() + more,
          .ran = ran_,
          .ledger = ledger_ ? std::optional(ledger_->note()) : std::nullopt,
          .chunk_samples = options_.batch * options_.chunk_steps,
          .budget = options_.budget};
}

double SwarmWork::chunks_per_second() const {
  return pace_.per_second() / static_cast<double>(options_.batch * options_.chunk_steps);
}

void RecentPace::add(Duration took, double amount) {
  if (took <= Duration{}) return;
  const double kept = std::exp(-seconds(took) / memory_s);
  const double weight = memory_s * (1 - kept);
  amount_ = kept * amount_ + weight * amount / seconds(took);
  seconds_ = kept * seconds_ + weight;
}

void SwarmWork::count_samples(Time now, std::uint64_t samples) {
  samples_ += samples;
  if (now > counted_) pace_.add(now - counted_, static_cast<double>(samples));
  counted_ = now;
}

void SwarmWork::agree_on(Time now, std::uint64_t samples) {
  if (agreed_ && samples > *agreed_) {
    pace_of_all_.add(now - agreed_at_, static_cast<double>(samples - *agreed_));
  }
  if (!agreed_ || samples != *agreed_) agreed_at_ = now;
  agreed_ = samples;
}

void SwarmWork::force_came(std::uint64_t steps_late) {
  steps_late_ += newest_force * (static_cast<double>(steps_late) - steps_late_);
}

bool SwarmWork::is_news() {
  const std::uint64_t least = std::max<std::uint64_t>(1, options_.budget / announcements);
  if (samples_ - announced_ < least) return false;
  announced_ = samples_;
  return true;
}

void SwarmWork::hear(Time now, const Membership& members) {
  leave_out_absence(now);
  heard_ = now;
  // The peers no longer agree on a count, so from here on we add up their reports.
  if (const auto agreed = std::exchange(agreed_, std::nullopt)) {
    base_ += *agreed - std::min(*agreed, counted());
    note_told(members);
  }
  for (Other& other : others_) other.trains = other.lives = false;
  silent_ = 0;
  auto place = others_.begin();
  members.for_each_report([&](const Member& member, const Progress& progress) {
    silent_ += is_live(member.state) && !progress.work;
    hear(now, member, progress, place);
  });
  limit_data();
  add_up();
  if (ledger_) return hear_ledgers(now, members);
  const std::uint64_t before = base_;
  take_total(now);
  if (base_ == before) return;
  // The new total includes counts that we have not received yet, or have not believed. A suspected
  // peer may have trained a lot since its last report.
  for (Other& other : others_) other.is_in_total |= !other.trains;
  note_told(members);
}

/// While this process was stopped, it trained on nothing, which says nothing about its pace. So we
/// forget the pace that was measured since the last hear(), and begin to measure again. A peer that
/// is alone may not call hear() for long, and needs no exact pace.
void SwarmWork::leave_out_absence(Time now) {
  if (heard_ > Time{} && now > heard_ + absent_after && !others_.empty()) {
    pace_ = pace_heard_;
    counted_ = now;
  }
  pace_heard_ = pace_;
}

/// Treats the counts in the others' reports as already added, because the new total includes them.
void SwarmWork::note_told(const Membership& members) {
  members.for_each_report([&](const Member& member, const Progress& progress) {
    if (!progress.work) return;
    const auto other = std::ranges::lower_bound(others_, member.id, {}, &Other::peer);
    if (other == others_.end() || other->peer != member.id) return;
    other->told = std::max(other->told, progress.work->samples);
  });
}

void SwarmWork::hear_ledgers(Time now, const Membership& members) {
  const auto chunk = static_cast<double>(options_.batch * options_.chunk_steps);
  static const LedgerEntry nothing;
  std::vector<LedgerReport> reports;
  members.for_each_report([&](const Member& member, const Progress& progress) {
    if (!progress.work) {
      // Without this, the first few peers that we have heard from could decide for all.
      if (is_live(member.state)) {
        reports.push_back({.peer = member.id, .entry = &nothing, .lives = true});
      }
      return;
    }
    if (!progress.work->ledger) return;
    const Other& other = *find(member.id);
    // A peer in a later phase no longer trains.
    const Phase phase = progress.phase;
    reports.push_back(
        {.peer = member.id,
         .entry = &*progress.work->ledger,
         .pace = other.pace.per_second() / chunk,
         .lives = other.lives && (phase == Phase::joining || phase == Phase::training),
         .died = member.state == MemberState::dead});
  });
  ledger_->hear(now, reports, chunks_per_second(), now < began_ + meeting);
}

const SwarmWork::Other* SwarmWork::find(PeerId peer) const {
  const auto found = std::ranges::lower_bound(others_, peer, {}, &Other::peer);
  return found != others_.end() && found->peer == peer ? &*found : nullptr;
}

/// Takes over a member's report. `place` is where the search in `others_` begins: at the previous
/// member, in the order of ids.
void SwarmWork::hear(Time now, const Member& member, const Progress& progress,
                     std::vector<Other>::iterator& place) {
  if (!progress.work) return;
  const WorkDone& work = *progress.work;
  place = std::find_if(place, others_.end(),
                       [&](const Other& other) { return other.peer >= member.id; });
  if (place == others_.end() || place->peer != member.id) {
    place = others_.insert(place, Other{.peer = member.id,
                                        .before = work.samples,
                                        .told = work.samples,
                                        .first = now,
                                        .counted = now});
  }
  Other& other = *place;
  // A suspected peer still counts. Otherwise a hostile peer could exclude all others by suspecting
  // them.
  other.lives = is_live(member.state);
  other.trains = member.state == MemberState::alive && progress.phase == Phase::training;
  other.data = work.data;
  other.total = work.counted;
  // A much lower count comes from a new process, and a slightly lower one from an older report.
  if (work.samples < other.told / 4) other.told = work.samples;
  if (work.samples <= other.told) return;
  if (std::exchange(other.is_in_total, false)) {
    other.told = work.samples;
    other.counted = now;
    return;
  }
  // If the peer keeps up this pace, we believe the rest of the growth later.
  const std::uint64_t grown = believed(now, other, work.samples - other.told);
  other.told += grown;
  if (now > other.counted) other.pace.add(now - other.counted, static_cast<double>(grown));
  other.grown += grown;
  other.counted = now;
}

/// Caps the shard sizes that other peers report at a plausible maximum.
void SwarmWork::limit_data() {
  std::uint64_t most = options_.all_data;
  if (most == 0 || options_.has_own_files) {
    std::uint64_t smallest = options_.data;
    for (const Other& other : others_) {
      if (other.lives) smallest = std::min(smallest, other.data);
    }
    const auto may_be_too_large = [&](const Other& other) {
      return other.data > smallest && other.data / larger_max >= smallest;
    };
    if (std::ranges::none_of(others_, may_be_too_large)) return;
    std::vector<std::uint64_t> sizes{options_.data};
    for (const Other& other : others_) {
      if (other.lives) sizes.push_back(other.data);
    }
    const auto median = sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 2);
    std::ranges::nth_element(sizes, median);
    constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();
    most = *median < unlimited / larger_max ? *median * larger_max : unlimited;
  }
  for (Other& other : others_) other.data = std::min(other.data, most);
}

void SwarmWork::add_up() {
  sums_ = {};
  for (const Other& other : others_) {
    sums_.grown += other.grown;
    if (!other.trains) continue;
    const double pace = other.pace.per_second();
    sums_.pace += pace;
    if (pace > 0) {
      sums_.data += static_cast<double>(other.data);
    } else if (heard_ - other.first < known_for) {
      // The pace is not known yet. If it stays unknown for too long, we assume that the peer does
      // not train.
      sums_.is_known = false;
    }
  }
}

/// Returns the part of a peer's claimed growth that we believe.
std::uint64_t SwarmWork::believed(Time now, const Other& other, std::uint64_t claimed) const {
  const auto most = [&](double fastest) {
    const double samples = faster_max * fastest * seconds(now - other.counted);
    return static_cast<std::uint64_t>(std::min(samples, static_cast<double>(options_.budget)));
  };
  double fastest = pace_.per_second();
  const Duration known = other.counted - other.first;
  if (known >= known_for) {
    fastest = std::max(fastest, static_cast<double>(other.grown) / seconds(known));
  }
  // This first test usually makes a pass over all peers unnecessary.
  if (most(fastest) >= claimed) return claimed;
  for (const Other& known_peer : others_) {
    if (&known_peer != &other) fastest = std::max(fastest, known_peer.pace.per_second());
  }
  return std::min(claimed, most(fastest));
}

/// If our total is far behind, replaces it by one that other peers confirm.
void SwarmWork::take_total(Time now) {
  // While no pace is known, we wait longer, because reports that are still under way would look
  // like work that we missed. A resting centre never has a pace, so it believes no growth of the
  // others' counts. It learns from the totals how much the others have trained.
  if (now < began_ + (pace() > 0 ? meeting : known_for)) return;
  const std::uint64_t own = counted();
  const double most = static_cast<double>(own) + behind_s * pace();
  const auto is_above = [&](const Other& other) {
    return other.lives && static_cast<double>(other.total) > most;
  };
  if (std::ranges::none_of(others_, is_above)) return;
  std::vector<std::uint64_t> totals{own};
  for (const Other& other : others_) {
    if (other.lives) totals.push_back(other.total);
  }
  // Otherwise the first few peers that we have heard from could decide for all.
  totals.resize(totals.size() + silent_);
  const std::uint64_t total = std::min(vouched(std::move(totals)), options_.budget);
  if (static_cast<double>(total) > most) base_ += total - own;
}

void SwarmWork::follow_clock(Time now, bool trains, const Membership& members) {
  if (options_.wall == Duration{}) return;
  if (!trains_since_) {
    if (!trains) return;
    trains_since_ = now - options_.resumed.ran;
  }
  if (now < began_ + meeting) {
    clock_ = now - *trains_since_;
    clock_heard_ = now;
  } else if (now >= clock_heard_ + clock_heard_every) {
    clock_heard_ = now;
    take_clock(now, members);
  }
  ran_ = now - *trains_since_;
}

/// Sets the swarm's training time to the longest time that more than a third of the live peers have
/// reached. A newcomer takes over this time.
void SwarmWork::take_clock(Time now, const Membership& members) {
  const std::uint64_t wall_ms = to_ms(options_.wall);
  std::vector<Duration> times{now - *trains_since_};
  const std::map<PeerId, Clock> before = std::exchange(clocks_, {});
  members.for_each_report([&](const Member& member, const Progress& progress) {
    if (!is_live(member.state)) return;
    const std::uint64_t ran_ms = progress.work ? std::min(progress.work->ran_ms, wall_ms) : 0;
    const auto known = before.find(member.id);
    const bool is_new = known == before.end() || known->second.ran_ms != ran_ms;
    const Clock& clock = clocks_[member.id] = is_new ? Clock{ran_ms, now} : known->second;
    // A report is extrapolated only for a short time, so that a jump in our clock does not make
    // every peer's time jump.
    const bool trains = progress.phase == Phase::training;
    const Duration since = trains ? std::min(now - clock.heard, clock_heard_every) : Duration{};
    times.push_back(std::chrono::milliseconds(ran_ms) + since);
  });
  clock_ = vouched(std::move(times));
  trains_since_ = std::min(*trains_since_, now - clock_);
}

bool SwarmWork::is_time_over(Time now, Duration ahead) const {
  if (options_.wall == Duration{} || !trains_since_) return false;
  return clock_ + std::min(now - clock_heard_, clock_heard_every) + ahead >= options_.wall;
}

bool SwarmWork::knows_clock() const {
  return options_.wall == Duration{} || clock_heard_ >= began_ + meeting;
}

Duration SwarmWork::told_clock(const Membership& members) const {
  const std::uint64_t wall_ms = to_ms(options_.wall);
  std::vector<Duration> times{ran_};
  members.for_each_report([&](const Member& member, const Progress& progress) {
    if (!is_live(member.state)) return;
    const std::uint64_t ran_ms = progress.work ? std::min(progress.work->ran_ms, wall_ms) : 0;
    times.push_back(std::chrono::milliseconds(ran_ms));
  });
  return vouched(std::move(times));
}

void SwarmWork::follow_target(Time now, const Membership& members, Effects& out,
                              const std::vector<PeerId>* panel) {
  judges_.hear(now, counted(), members, panel);
  if (!judges_.is_reached() || std::exchange(is_target_told_, true)) return;
  out.tell(TargetReached{.votes = judges_.votes(), .peers = judges_.voters()});
}

void SwarmWork::add_measurement(Job& job) {
  if (!judges_.is_due()) return;
  judges_.begin();
  job.add(task::Measure{});
}

bool SwarmWork::learn_from(const JobDone& done, Effects& out) {
  const auto* measured = first_of<result::Measured>(done.results);
  if (measured == nullptr) return false;
  judges_.learn(measured->value);
  out.tell(TargetMeasured{
      .value = measured->value, .reached = measured->value >= judges_.target(), .step = done.step});
  return true;
}

std::uint64_t SwarmWork::counted() const {
  if (agreed_) return *agreed_;
  if (ledger_) {
    return std::min(options_.budget, ledger_->done() * options_.batch * options_.chunk_steps);
  }
  return base_ + samples_ + sums_.grown;
}

double SwarmWork::progress(Time now) {
  if (ledger_) {
    const double done = ledger_->estimate(now) / static_cast<double>(ledger_->options().chunks);
    progress_ = std::max(progress_, std::min(1.0, done));
    return progress_;
  }
  const auto budget = static_cast<double>(std::max<std::uint64_t>(1, options_.budget));
  auto samples = static_cast<double>(counted());
  if (agreed_) return std::min(1.0, samples / budget);
  for (const Other& other : others_) {
    if (!other.trains) continue;
    samples += other.pace.per_second() * seconds(std::min(now - other.counted, goes_on_for));
  }
  progress_ = std::max(progress_, std::min(1.0, samples / budget));
  return progress_;
}

std::uint64_t SwarmWork::steps_left(Time now) {
  const double samples = (1 - progress(now)) * static_cast<double>(options_.budget);
  const auto batch = static_cast<double>(options_.batch * batch_growth());
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::ceil(samples / batch)));
}

std::uint64_t SwarmWork::batch_growth() const {
  const double samples = progress_ * static_cast<double>(options_.budget);
  return options_.growth.after(agreed_.value_or(static_cast<std::uint64_t>(samples)));
}

std::uint64_t SwarmWork::steps_left_of(std::uint64_t samples) const {
  const std::uint64_t left = options_.budget - std::min(options_.budget, counted());
  return left / samples + (left % samples > 0 ? 1 : 0);
}

double SwarmWork::pace() const {
  return agreed_ ? pace_of_all_.per_second() : pace_.per_second() + sums_.pace;
}

SwarmWork::Together SwarmWork::together() const {
  if (!sums_.is_known) return {};
  return {.data = static_cast<double>(options_.data) + sums_.data, .pace = pace()};
}

double SwarmWork::factor_wanted(std::uint64_t data, double pace, const Together& all) {
  if (all.data <= 0 || data == 0 || pace <= 0) return 1;
  return (static_cast<double>(data) / all.data) / (pace / all.pace);
}

double SwarmWork::factor_wanted() const {
  return factor_wanted(options_.data, pace_.per_second(), together());
}

double SwarmWork::factor() const {
  return weighs() ? std::min(options_.weigh_max, factor_wanted()) : 1;
}

}  // namespace gv
