// The swarm's budget of samples: how much of it is used up, and the factor on this peer's updates.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/time.hpp"
#include "consensus/ledger/ledger.hpp"
#include "consensus/membership/membership.hpp"
#include "peer/modes/course.hpp"
#include "peer/modes/judges.hpp"
#include "peer/modes/mode_report.hpp"

namespace gv {

/// A span of time as it is written in reports and notes, in whole milliseconds.
inline std::uint64_t to_ms(Duration time) {
  return static_cast<std::uint64_t>(time / std::chrono::milliseconds(1));
}

/// Returns the options without chunks, for modes that determine each peer's part of the data
/// themselves.
SwarmWorkOptions without_ledger(SwarmWorkOptions options);

/// Averages the pace of a growing count over about the last ten seconds, with exponentially falling
/// weights.
class RecentPace {
 public:
  void add(Duration took, double amount);
  /// The average growth per second; 0 before the first add().
  double per_second() const { return seconds_ > 0 ? amount_ / seconds_ : 0; }

 private:
  double amount_ = 0;
  double seconds_ = 0;
};

/// Adds up the samples that the peers of a swarm have trained on. Each peer counts the samples of
/// its own process and reports the count. The other peers add up the growth of this count since its
/// first report, and keep the sum when the peer is gone. Between two reports, a peer is assumed to
/// continue at its measured pace. Samples that peers trained on before we first heard from them
/// come from the totals that other peers report. The largest total that more than a third of the
/// live peers reach replaces ours, if it is higher by more than ten seconds of work. Peers that
/// were away at that time may later report counts that this total already includes, so these counts
/// are not added. If fewer than a third of the peers are hostile, no false total is believed.
///
/// We believe that a peer's count grows at most four times as fast as the fastest pace measured at
/// other peers. Once we have known the peer for ten seconds, its own mean pace counts as well. So
/// no single report can use up a budget.
///
/// If shards differ, the data of a slow peer would count too little. The mean model settles where
/// the sum of rate * step size * gradient over the peers is zero, with the peers' rates in steps
/// per second (Wang et al. 2020, FedNova). So each peer multiplies its updates by its share of the
/// data divided by its share of the steps, up to a limit. We do not believe that a shard has more
/// samples than all shards together, or, if that number is not known, more than 16 times the
/// median. So a false size makes the other peers' updates only a little smaller.
///
/// If the run has a time limit, each peer measures with its own clock how long it has trained, and
/// reports this time. The swarm has trained for the longest time that more than a third of the live
/// peers have reached. A newcomer takes over this time, so that all peers end together.
///
/// If the run has a target accuracy, judges among the peers measure their models (see Judges).
///
/// Peers in lockstep agree on their version, which states how many samples they have all trained
/// on. They add up no counts, and they all have the same progress. Pure.
class SwarmWork {
 public:
  SwarmWork(PeerId self, const SwarmWorkOptions& options);

  bool is_on() const { return options_.budget > 0; }
  const SwarmWorkOptions& options() const { return options_; }

  /// Call when our process begins.
  void begin(Time now) { began_ = counted_ = now; }
  /// Call when training begins. Our own pace is measured from now on.
  void train(Time now) { counted_ = now; }
  /// Follows how long the swarm has trained, if the run has a time limit. `trains` means that we
  /// are training.
  void follow_clock(Time now, bool trains, const Membership& members);
  /// Follows the judges' verdicts, if the run has a target. Call while we train. For `panel`, see
  /// Judges.
  void follow_target(Time now, const Membership& members, Effects& out,
                     const std::vector<PeerId>* panel = nullptr);
  /// Counts `steps` more steps of ours, with a batch that has grown by the factor `growth`.
  void count(Time now, std::uint64_t steps, std::uint64_t growth = 1) {
    count_samples(now, steps * options_.batch * growth);
  }
  void count_samples(Time now, std::uint64_t samples);
  /// Takes over the number of samples on which all peers have agreed.
  void agree_on(Time now, std::uint64_t samples);
  /// Takes over the members' reports.
  void hear(Time now, const Membership& members);

  /// True if all peers agree on the present value of counted().
  bool is_agreed() const { return agreed_.has_value(); }
  /// Our own report.
  WorkDone own() const;
  /// Returns the note for a checkpoint. It includes `more` samples that are about to be trained on.
  SwarmNote note(std::uint64_t more = 0) const;
  /// The ledger of done and taken chunks; null if data are not leased.
  Ledger* ledger() { return ledger_ ? &*ledger_ : nullptr; }
  const Ledger* ledger() const { return ledger_ ? &*ledger_ : nullptr; }
  /// Number of chunks that we train on per second; 0 if it is not known yet.
  double chunks_per_second() const;
  /// True if our count should be announced at once, because we have trained on a hundredth of the
  /// budget since our last announcement. So all peers together make at most a hundred such
  /// announcements in a run. Without them, peers would train on several times the budget if the
  /// budget is used up between two probes.
  bool is_news();
  /// Adds a measurement of our model to the job, if one is due.
  void add_measurement(Job& job);
  /// Takes the measurement in a finished job. Returns true if there was one, which should be
  /// announced at once.
  bool learn_from(const JobDone& done, Effects& out);
  /// Call when a force has arrived that was computed from our model as it was `steps_late` steps
  /// ago.
  void force_came(std::uint64_t steps_late);
  Judges& judges() { return judges_; }
  const Judges& judges() const { return judges_; }
  /// The number of samples that all peers are known to have trained on. Never falls, unless peers
  /// agree on a smaller number.
  std::uint64_t counted() const;
  /// The fraction of the budget that is probably used up, in [0, 1]. It never falls. If peers agree
  /// on the count, it is exact.
  double progress(Time now);
  /// The factor by which our batch has grown according to the last result of progress(). Equal at
  /// all peers that agree on the count.
  std::uint64_t batch_growth() const;
  /// The number of our steps until the budget is used up, as far as we know; at least 1.
  std::uint64_t steps_left(Time now);
  /// The number of steps until the budget is used up, if all peers together take `samples` samples
  /// in each step; 0 if it is used up.
  std::uint64_t steps_left_of(std::uint64_t samples) const;
  /// True if the known samples reach the budget or, with leased data, if all chunks are done.
  bool is_used_up() const {
    return ledger_ ? ledger_->is_complete() : counted() >= options_.budget;
  }
  /// True if the swarm has trained for all of the time that the run may take, or will have done so
  /// after the time `ahead`.
  bool is_time_over(Time now, Duration ahead = {}) const;
  /// True if our clock already takes the others' reports into account, or if the run has no time
  /// limit. False during our first seconds.
  bool knows_clock() const;
  /// The time for which the swarm has trained, judged by reports alone: the longest time that more
  /// than a third of the live peers, including ourselves, report.
  Duration told_clock(const Membership& members) const;
  /// The pace of all training peers together, in samples per second.
  double pace() const;
  /// The factor on our updates, in (0, weigh_max].
  double factor() const;
  /// The factor that would give all samples equal weights. factor() limits this value.
  double factor_wanted() const;

  /// Adds what we know about the work of the swarm and of each member.
  void add_to(const Membership& members, ModeReport& report) const;

 private:
  /// What we know about another peer.
  struct Other {
    PeerId peer{};
    std::uint64_t before = 0;  ///< The count that the peer claimed in its first report.
    std::uint64_t told = 0;    ///< The peer's count, as far as we believe it.
    std::uint64_t grown = 0;   ///< How much the peer's count has grown since its first report, as
                               ///< far as we believe it.
    std::uint64_t data = 0;
    std::uint64_t total = 0;  ///< The total that the peer last reported.
    Time first{};             ///< When we received the peer's first report.
    Time counted{};           ///< When the peer's count last grew.
    RecentPace pace;
    bool trains = false;
    bool lives = false;
    bool is_in_total = false;  ///< True if the peer was silent when we took over a total, which may
                               ///< already include the next growth of the peer's count.
  };

  /// Sums over the training peers with a known pace.
  struct Together {
    double data = 0;  ///< Samples in these peers' shards; 0 while a newcomer's pace is not known.
    double pace = 0;  ///< The pace of these peers together, in samples per second.
  };

  /// Sums over the other peers at the last hear(). Cached because every job needs them.
  struct Sums {
    /// How much the others' counts have grown, as far as we believe them.
    std::uint64_t grown = 0;
    double pace = 0;       ///< The pace of the training peers, in samples per second.
    double data = 0;       ///< Samples in the shards of training peers with a known pace.
    bool is_known = true;  ///< False while the pace of a new peer has not been measured.
  };

  /// Samples of leased data that earlier processes have trained on, as far as our checkpoint says.
  struct Restored {
    std::uint64_t done = 0;   ///< Samples in done chunks, by all peers together.
    std::uint64_t begun = 0;  ///< Samples in chunks that only our model contains.
  };

  /// The time for which another peer claims to have trained.
  struct Clock {
    std::uint64_t ran_ms = 0;
    Time heard{};  ///< When we first received this claim.
  };

  void restore_ledger(const SwarmNote& note);
  std::uint64_t begun() const;
  void hear(Time now, const Member& member, const Progress& progress,
            std::vector<Other>::iterator& place);
  void leave_out_absence(Time now);
  void note_told(const Membership& members);
  void hear_ledgers(Time now, const Membership& members);
  void take_total(Time now);
  void take_clock(Time now, const Membership& members);
  void limit_data();
  void add_up();
  std::uint64_t believed(Time now, const Other& other, std::uint64_t claimed) const;
  const Other* find(PeerId peer) const;
  /// True if our updates are scaled by the peers' amounts of data and paces.
  bool weighs() const { return options_.weigh_max > 1 && !agreed_; }
  Together together() const;
  static double factor_wanted(std::uint64_t data, double pace, const Together& all);
  std::uint64_t samples_of(const Member& member) const;
  std::optional<Duration> oldest_report() const;
  std::uint64_t counted_at_end(const Membership& members) const;
  void add_work(const Membership& members, ModeReport& report) const;
  void add_target(ModeReport& report) const;
  std::uint64_t again(std::uint64_t samples) const;
  void add_ledger(std::uint64_t samples, ModeReport& report) const;
  void add_factor(ModeReport& report) const;
  ReportSection section_of(const Member& member, std::uint64_t samples, double share,
                           const Together& all) const;
  void add_part(const Ledger::Part& part, ReportSection& section) const;

  SwarmWorkOptions options_;
  std::uint64_t samples_ = 0;    ///< Samples that this process has trained on.
  std::uint64_t announced_ = 0;  ///< The value of `samples_` at the last announcement.
  std::uint64_t base_ = 0;       ///< Samples that all peers had trained on before we began to
                                 ///< count.
  Time began_{};
  std::optional<Time> trains_since_;  ///< When we, or the peers that we joined, began to train.
  Duration clock_{};                  ///< How long the swarm has trained, as of `clock_heard_`.
  Duration ran_{};                    ///< How long the swarm had trained at the last
                                      ///< follow_clock().
  std::map<PeerId, Clock> clocks_;    ///< The newest claim of each live peer.
  Time clock_heard_{};
  Time counted_{};
  Time heard_{};
  RecentPace pace_;
  RecentPace pace_heard_;      ///< `pace_` at the last hear().
  std::vector<Other> others_;  ///< The other peers, in the order of ids.
  Sums sums_;
  std::size_t silent_ = 0;  ///< Live peers whose reports do not tell us about their work yet.
  std::optional<Ledger> ledger_;
  Restored restored_;
  Judges judges_;
  bool is_target_told_ = false;
  std::optional<std::uint64_t> agreed_;  ///< The value of counted(), if peers agree on it.
  Time agreed_at_{};
  RecentPace pace_of_all_;  ///< The pace at which `agreed_` grows.
  double steps_late_ = 0;   ///< Recent mean of the forces' delays, in steps.
  double progress_ = 0;
};

}  // namespace gv
