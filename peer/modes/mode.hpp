// A way of working together, as a node sees it, and the course that all of them share.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/problems.hpp"
#include "consensus/membership/membership.hpp"
#include "consensus/message/effects.hpp"
#include "peer/node/replica.hpp"

namespace gv {

/// How a peer begins, saves and ends, whatever it does between.
struct CourseOptions {
  std::uint64_t run_seed = 1;
  std::uint64_t steps = 0;                       ///< The training budget in optimiser steps.
  std::uint64_t save_every_steps = 0;            ///< Between two checkpoints; 0 = only the last.
  std::size_t wait_for_peers = 1;                ///< Begin when so many are there, self included,
  Duration wait_max = std::chrono::seconds(20);  ///< or after this long.
  Duration linger = std::chrono::seconds(60);    ///< After the budget, serve others this long.
  std::uint64_t layout_hash = 0;
  std::size_t elements = 0;  ///< Parameters of the model.
};

/// The place of a peer among all that step together, in their order, where one host has them all.
struct HostPlace {
  std::size_t place = 0;
  std::size_t peers = 1;
};

/// Checkpoints since the start.
struct SaveCounts {
  std::uint64_t written = 0;
  std::uint64_t failed = 0;
};

/// The course of one peer's training. Pure: asks for jobs and messages, is told of results and
/// time. Jobs are done in the order they are asked for.
class Mode {
 public:
  Mode(PeerId self, const CourseOptions& course);
  virtual ~Mode() = default;

  /// Called once, when the replica exists. `step` is where a resumed run goes on. With
  /// `joins_others`, nothing begins before a first contact, unless none comes for long.
  void start(Time now, std::uint64_t step, bool joins_others, Membership& members, Effects& out,
             std::vector<Job>& jobs);

  virtual void receive(Time now, PeerId from, const Message& message, Membership& members,
                       Effects& out) = 0;
  virtual void receive_block(Time now, PeerId from, const Block& block, Effects& out) = 0;
  /// Where a block that is under way shall lie, of so many bytes; empty: anywhere else. May be
  /// written to until anything else here is called.
  virtual std::span<std::byte> place(PeerId /*from*/, const TransferId&, std::uint64_t /*offset*/,
                                     std::size_t /*bytes*/) {
    return {};
  }
  virtual void lane_lost(Time now, PeerId peer, Effects& out) = 0;
  virtual void lane_refused(Time now, PeerId peer, Effects& out) = 0;
  virtual void peer_gone(Time now, PeerId peer, Effects& out) = 0;

  /// The gradient that the job of this number computes is final from element `begin` on.
  virtual void gradient_ready(Time, std::uint64_t /*job*/, std::size_t /*begin*/, Effects&) {}

  /// The oldest job under way is done.
  void complete(Time now, JobDone done, Membership& members, Effects& out, std::vector<Job>& jobs);

  /// Whatever is due; asks for the next job when none runs.
  virtual void tick(Time now, Membership& members, Effects& out, std::vector<Job>& jobs) = 0;
  virtual Time deadline() const = 0;

  /// Our incarnation rose: others thought us dead or suspected us.
  virtual void woke_up(Time, Membership&, Effects&) {}

  /// From an agreed moment on all are to go by these settings. Empty, or why that cannot be.
  virtual Problems switch_to(Time now, std::string_view settings);

  /// Nothing new with others; ends with a last job that saves, after which finished() is true.
  void leave(Time now, Membership& members, Effects& out, std::vector<Job>& jobs);
  /// All that is missing comes from peers of this host: it may be here before we could fall asleep.
  virtual bool should_busy_poll() const { return false; }
  /// Whom we wait for at every step is on this host.
  virtual std::optional<HostPlace> host_place() const { return {}; }

  /// Something with another peer is under way that should settle before we are gone.
  virtual bool is_settling() const { return false; }

  bool finished() const { return finished_; }
  /// Time to leave: the budget is done and nobody needs us any more, or we cannot go on.
  bool is_over(const Membership& members) const;

  Phase phase() const { return phase_; }
  virtual std::uint64_t step() const = 0;
  virtual double steps_per_second() const = 0;
  /// Mean training loss and accuracy over the last jobs (exponential average).
  double recent_loss() const { return recent_loss_; }
  double recent_accuracy() const { return recent_accuracy_; }
  double learning_rate() const { return learning_rate_; }
  const SaveCounts& saves() const { return saves_; }

 protected:
  /// The replica stands at `step`; time has come to nothing else yet.
  virtual void begin_at(std::uint64_t step) = 0;
  /// What a job came to.
  virtual void take(Time now, JobDone done, Membership& members, Effects& out) = 0;
  /// The peer leaves: nothing new with others.
  virtual void become_leaving(Time now, Effects& out) = 0;
  /// What others may know of us in a population.
  virtual std::optional<Trial> trial() const { return std::nullopt; }
  /// No result waits for the next job.
  virtual bool is_idle() const = 0;

  /// Others plan by our phase (whom to ask, whether to linger), so they are told at once.
  void enter(Time now, Phase phase, Membership& members, Effects& out);
  void become_training(Time now, std::size_t peers, Membership& members, Effects& out);
  void become_done(Time now, Membership& members, Effects& out);
  void report(Membership& members) const;
  void post(Job job, std::vector<Job>& jobs);
  void learn_from(const Score& score);

  /// So many peers, self included, are enough to begin, or we have waited for long.
  bool is_barrier_open(Time now, std::size_t present) const;
  Time barrier_deadline() const { return waiting_since_ + course_.wait_max; }
  void end_lingering(Time now);
  Time linger_deadline() const;
  bool is_save_due(std::uint64_t step) const;

  PeerId self_;
  CourseOptions course_;
  Phase phase_ = Phase::joining;
  bool started_ = false;  ///< The replica exists.
  bool leaving_ = false;
  /// Asked for and not done: at most one, but in a pipeline two.
  std::size_t jobs_under_way_ = 0;
  bool last_job_ = false;  ///< The job under way is the one that ends it all.
  bool finished_ = false;
  bool stuck_ = false;  ///< We cannot go on.
  std::uint64_t job_number_ = 0;
  std::uint64_t saved_step_ = 0;
  double learning_rate_ = 0;

 private:
  bool others_done(const Membership& members) const;

  bool joins_others_ = false;
  bool linger_over_ = false;
  bool scored_ = false;
  Time waiting_since_{};
  Time done_since_{};
  double recent_loss_ = 0;
  double recent_accuracy_ = 0;
  SaveCounts saves_;
};

/// Weight of the newest value in the running averages.
constexpr double recent_weight = 0.1;

}  // namespace gv
