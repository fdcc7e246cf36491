// A mode as a node sees it, and the course that all modes share.
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

/// How a peer begins, saves and ends in every mode.
struct CourseOptions {
  std::uint64_t run_seed = 1;
  std::uint64_t steps = 0;             ///< The training budget in optimiser steps.
  std::uint64_t save_every_steps = 0;  ///< Between two checkpoints; 0 = only the last.
  std::size_t wait_for_peers = 1;      ///< Peers to wait for before training, self included.
  Duration wait_max = std::chrono::seconds(20);  ///< Begin after this long with fewer peers, too.
  Duration linger = std::chrono::seconds(60);    ///< After the budget, serve others this long.
  std::uint64_t layout_hash = 0;
  std::size_t elements = 0;  ///< Parameters of the model.
};

/// A peer's place in the order of peers that step together, where one host has them all.
struct HostPlace {
  std::size_t place = 0;
  std::size_t peers = 1;
};

/// Checkpoints since the start.
struct SaveCounts {
  std::uint64_t written = 0;
  std::uint64_t failed = 0;
};

/// The course of one peer's training. Pure: asks for jobs and messages, and is told results and the
/// time. Jobs are done in the order they are asked for.
class Mode {
 public:
  Mode(PeerId self, const CourseOptions& course);
  virtual ~Mode() = default;

  /// Called once, when the replica exists. A resumed run goes on at `step`. With `joins_others`,
  /// nothing begins before a first contact, unless none comes for long.
  void start(Time now, std::uint64_t step, bool joins_others, Membership& members, Effects& out,
             std::vector<Job>& jobs);

  virtual void receive(Time now, PeerId from, const Message& message, Membership& members,
                       Effects& out) = 0;
  virtual void receive_block(Time now, PeerId from, const Block& block, Effects& out) = 0;
  /// Where to put `bytes` of a block that is under way; empty: anywhere else. The memory may be
  /// written to until any other function here is called.
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

  /// Does what is due; asks for the next job when none runs.
  virtual void tick(Time now, Membership& members, Effects& out, std::vector<Job>& jobs) = 0;
  virtual Time deadline() const = 0;

  /// Our incarnation rose: other peers thought us dead or suspected us.
  virtual void woke_up(Time, Membership&, Effects&) {}

  /// From an agreed moment on all peers are to use these settings. Returns nothing, or why that is
  /// impossible.
  virtual Problems switch_to(Time now, std::string_view settings);

  /// Starts nothing new with other peers. The last job saves, after which finished() is true.
  void leave(Time now, Membership& members, Effects& out, std::vector<Job>& jobs);
  /// Everything we wait for comes from peers of this host, and may arrive before we could fall
  /// asleep.
  virtual bool should_busy_poll() const { return false; }
  /// Our place, if all peers that we wait for at every step are on this host.
  virtual std::optional<HostPlace> host_place() const { return {}; }

  /// Something with another peer is under way and should settle before we leave.
  virtual bool is_settling() const { return false; }

  bool finished() const { return finished_; }
  /// Time to leave: the budget is done and no peer needs us any more, or we cannot go on.
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
  /// The replica is at `step`; nothing else has happened yet.
  virtual void begin_at(std::uint64_t step) = 0;
  /// The result of a job.
  virtual void take(Time now, JobDone done, Membership& members, Effects& out) = 0;
  /// The peer leaves and starts nothing new with other peers.
  virtual void become_leaving(Time now, Effects& out) = 0;
  /// In a population, our newest validation, which other peers may know.
  virtual std::optional<Trial> trial() const { return std::nullopt; }
  /// No result waits for the next job.
  virtual bool is_idle() const = 0;

  /// Other peers plan by our phase (whom to ask, whether to linger), so they learn it at once.
  void enter(Time now, Phase phase, Membership& members, Effects& out);
  void become_training(Time now, std::size_t peers, Membership& members, Effects& out);
  void become_done(Time now, Membership& members, Effects& out);
  void report(Membership& members) const;
  void post(Job job, std::vector<Job>& jobs);
  void learn_from(const Score& score);

  /// `present` peers, self included, are enough to begin, or we have waited for long.
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
  /// Jobs asked for and not done: at most one, but two in a pipeline.
  std::size_t jobs_under_way_ = 0;
  bool last_job_ = false;  ///< The job under way is this peer's last.
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
