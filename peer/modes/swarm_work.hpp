// The swarm's budget of samples: how much of it is used up, and the factor on this peer's updates.
#pragma once

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

/// These options for peers that agree on each one's part, so that none has to take chunks.
SwarmWorkOptions without_ledger(SwarmWorkOptions options);

/// A mean over the last ten seconds of a growing count, with exponentially falling weights.
class RecentPace {
 public:
  void add(Duration took, double amount);
  /// Amount in a second; 0 before the first is added.
  double per_second() const { return seconds_ > 0 ? amount_ / seconds_ : 0; }

 private:
  double amount_ = 0;
  double seconds_ = 0;
};

/// Adds up the samples that the peers of a swarm have trained on. Each peer counts the samples of
/// its process and reports the count. The others add the growth of the count since they first heard
/// it, and keep this sum when the peer is gone. Between two reports a peer is assumed to continue
/// at its measured pace. Samples trained before we heard of them come from the totals that others
/// report: the largest total that more than a third of the live peers reach replaces ours, if ours
/// is lower by more than ten seconds' work. What peers that are away then report when they come
/// back may be part of it and is not added. With fewer than a third hostile peers, no false total
/// is believed.
///
/// A count grows at most four times as fast as the fastest pace measured at other peers, or as its
/// own mean pace once that is known for ten seconds. So no report alone can use up a budget.
///
/// If shards differ, a slow peer's data would count too little: the mean model stands still where
/// the sum of rate * step size * gradient over the peers is zero (Wang et al. 2020, FedNova). So
/// each peer multiplies its updates by its share of the data over its share of the steps, up to a
/// limit. No shard is believed to have more samples than all shards together, or than 16 times the
/// median if that is not known. So a false size shortens updates only by a small factor.
///
/// If the run also ends after some time, each peer measures by its own clock how long it has
/// trained, and reports this. The swarm has trained for the longest time that more than a third of
/// the live peers reach. A newcomer takes over this time, so all end together.
///
/// With a target accuracy, judges among the peers measure their models (see Judges).
///
/// Peers in lockstep agree on their version, which says how many samples all have trained on. They
/// add up no counts, and progress is the same at all of them. Pure.
class SwarmWork {
 public:
  SwarmWork(PeerId self, const SwarmWorkOptions& options);

  bool is_on() const { return options_.budget > 0; }
  const SwarmWorkOptions& options() const { return options_; }

  /// Call when our process has begun.
  void begin(Time now) { began_ = counted_ = now; }
  /// Call when training begins. From now on our own pace is measured.
  void train(Time now) { counted_ = now; }
  /// Follows how long the swarm has trained, if that ends the run. `trains`: we are training.
  void follow_clock(Time now, bool trains, const Membership& members);
  /// Follows the judges' verdicts, if they end the run. Called while we train. `panel`: see Judges.
  void follow_target(Time now, const Membership& members, Effects& out,
                     const std::vector<PeerId>* panel = nullptr);
  /// Counts this many further steps of ours, with a batch that has grown by `growth`.
  void count(Time now, std::uint64_t steps, std::uint64_t growth = 1) {
    count_samples(now, steps * options_.batch * growth);
  }
  void count_samples(Time now, std::uint64_t samples);
  /// Takes over the number of samples that all peers have agreed on.
  void agree_on(Time now, std::uint64_t samples);
  /// Takes over the members' reports.
  void hear(Time now, const Membership& members);

  /// True if the last count was one on which all peers agree.
  bool is_agreed() const { return agreed_.has_value(); }
  /// Our own report.
  WorkDone own() const;
  /// The note for a checkpoint after `more` samples that are about to be trained.
  SwarmNote note(std::uint64_t more = 0) const;
  /// The ledger of done and taken chunks; null if data are not leased.
  Ledger* ledger() { return ledger_ ? &*ledger_ : nullptr; }
  const Ledger* ledger() const { return ledger_ ? &*ledger_ : nullptr; }
  /// Our chunks a second; 0: not known yet.
  double chunks_per_second() const;
  /// True if others should be told at once, because we have trained a hundredth of the budget since
  /// the last announcement. So the peers announce at most a hundred times in a run, and a budget
  /// that is used up between two probes is not trained several times over.
  bool is_news();
  /// Adds a measurement of our model to the job, if one is due.
  void add_measurement(Job& job);
  /// Takes the job's measurement. Returns true if there was one, which others should be told at
  /// once.
  bool learn_from(const JobDone& done, Effects& out);
  /// A force has come that was made from our model `steps_late` steps ago.
  void force_came(std::uint64_t steps_late);
  Judges& judges() { return judges_; }
  const Judges& judges() const { return judges_; }
  /// Samples known to be trained by all peers. Never falls, unless peers agree on less.
  std::uint64_t counted() const;
  /// The fraction of the budget that is probably used up, in [0, 1]. It never falls. If peers have
  /// agreed, it is exact.
  double progress(Time now);
  /// The factor on our batch at the progress that was last asked for. If peers have agreed on the
  /// progress, all have the same factor.
  std::uint64_t batch_growth() const;
  /// Our steps until the budget is used up, as far as we know; at least 1.
  std::uint64_t steps_left(Time now);
  /// Steps until the budget is used up if all peers together take `samples` in each; 0 if it is.
  std::uint64_t steps_left_of(std::uint64_t samples) const;
  /// True if the samples known to be trained reach the budget. With leased data: if all chunks are
  /// done.
  bool is_used_up() const {
    return ledger_ ? ledger_->is_complete() : counted() >= options_.budget;
  }
  /// True if the swarm has trained for as long as the run may take, or will have in `ahead`.
  bool is_time_over(Time now, Duration ahead = {}) const;
  /// True if our clock takes the others' reports into account, which it does not in our first
  /// seconds, or if no time ends the run.
  bool knows_clock() const;
  /// How long the swarm has trained by the reports of live peers alone: the longest time that more
  /// than a third of them and us report.
  Duration told_clock(const Membership& members) const;
  /// Samples a second of all peers that train.
  double pace() const;
  /// The factor on our updates, in (0, weigh_max].
  double factor() const;
  /// The factor that equal weights of all samples would need. It is above factor() if that is
  /// limited.
  double factor_wanted() const;

  /// Adds what we know about the work of all and of each member.
  void add_to(const Membership& members, ModeReport& report) const;

 private:
  /// Another peer.
  struct Other {
    PeerId peer{};
    std::uint64_t before = 0;  ///< Its count when we first heard it, as claimed.
    std::uint64_t told = 0;    ///< Its count, as far as we believe it.
    std::uint64_t grown = 0;   ///< The growth since we first heard it, as far as we believe it.
    std::uint64_t data = 0;
    std::uint64_t total = 0;  ///< The total that it last reported.
    Time first{};             ///< When we first heard its count.
    Time counted{};           ///< When its count last grew.
    RecentPace pace;
    bool trains = false;
    bool lives = false;
    bool is_in_total = false;  ///< True if it was away when we took over a total, which may include
                               ///< the work that it reports when it comes back.
  };

  /// The sums over the training peers, as far as their pace is known.
  struct Together {
    double data = 0;  ///< Samples of their shards; 0: a newcomer's pace is not known yet.
    double pace = 0;  ///< Samples a second.
  };

  /// Sums over the other peers, as of hear(). Cached because every job needs them.
  struct Sums {
    std::uint64_t grown = 0;  ///< Growth of the others' counts, as far as we believe it.
    double pace = 0;          ///< Samples a second of the training peers.
    double data = 0;          ///< Samples in the shards of training peers with a known pace.
    bool is_known = true;     ///< False if a pace has not been measured yet.
  };

  /// How long another peer claims to have trained.
  struct Clock {
    std::uint64_t ran_ms = 0;
    Time heard{};  ///< When we first heard that.
  };

  void hear(Time now, const Member& member, std::vector<Other>::iterator& place);
  void note_told(const Membership& members);
  void hear_ledgers(Time now, const Membership& members);
  void take_total(Time now);
  void take_clock(Time now, const Membership& members);
  void limit_data();
  void add_up();
  std::uint64_t believed(Time now, const Other& other, std::uint64_t claimed) const;
  const Other* find(PeerId peer) const;
  /// True if updates are scaled by a peer's data and pace.
  bool weighs() const { return options_.weigh_max > 1 && !agreed_; }
  Together together() const;
  static double factor_wanted(std::uint64_t data, double pace, const Together& all);
  std::uint64_t samples_of(const Member& member) const;
  std::optional<Duration> oldest_report() const;
  void add_work(ModeReport& report) const;
  void add_target(ModeReport& report) const;
  void add_ledger(std::uint64_t samples, ModeReport& report) const;
  void add_factor(ModeReport& report) const;
  ReportSection section_of(const Member& member, std::uint64_t samples, double share,
                           const Together& all) const;
  void add_part(const Ledger::Part& part, ReportSection& section) const;

  SwarmWorkOptions options_;
  std::uint64_t samples_ = 0;    ///< Samples trained by this process.
  std::uint64_t announced_ = 0;  ///< Samples at the last announcement.
  std::uint64_t base_ = 0;       ///< Samples trained by all before we counted.
  Time began_{};
  std::optional<Time> trains_since_;  ///< When we began to train, or when the peers did that we
                                      ///< have joined.
  Duration clock_{};                  ///< How long the swarm has trained, as of `clock_heard_`.
  Duration ran_{};                    ///< How long the swarm has trained, as of follow_clock().
  std::map<PeerId, Clock> clocks_;    ///< The reports of live peers.
  Time clock_heard_{};
  Time counted_{};
  Time heard_{};
  RecentPace pace_;
  std::vector<Other> others_;  ///< The other peers, by id. Every job asks for sums over them.
  Sums sums_;
  std::optional<Ledger> ledger_;
  Judges judges_;
  bool is_target_told_ = false;
  std::optional<std::uint64_t> agreed_;  ///< The value of counted(), if peers agree.
  Time agreed_at_{};
  RecentPace pace_of_all_;  ///< Pace at which `agreed_` grows.
  double steps_late_ = 0;   ///< Recent mean of how late forces come.
  double progress_ = 0;
};

}  // namespace gv
