// A way of working together, as a node sees it.
#pragma once

#include <cstdint>
#include <vector>

#include "consensus/effects.hpp"
#include "consensus/membership/membership.hpp"
#include "peer/replica.hpp"

namespace gv {

/// The course of one peer's training. Pure: asks for jobs and messages, is told of results and
/// time. At most one job is under way at a time.
class Mode {
 public:
  virtual ~Mode() = default;

  /// Called once, when the replica exists. `step` is where a resumed run goes on.
  virtual void start(Time now, std::uint64_t step, bool joins_others, Membership& members,
                     Effects& out, std::vector<Job>& jobs) = 0;

  virtual void receive(Time now, PeerId from, const Message& message, Membership& members,
                       Effects& out) = 0;
  virtual void receive_block(Time now, PeerId from, const Block& block, Effects& out) = 0;
  virtual void lane_lost(Time now, PeerId peer, Effects& out) = 0;
  virtual void lane_refused(Time now, PeerId peer, Effects& out) = 0;
  virtual void peer_gone(Time now, PeerId peer, Effects& out) = 0;

  /// The gradient that the job of this number computes is final from element `begin` on.
  virtual void gradient_ready(Time, std::uint64_t /*job*/, std::size_t /*begin*/, Effects&) {}

  /// The job asked for last is done.
  virtual void complete(Time now, JobDone done, Membership& members, Effects& out,
                        std::vector<Job>& jobs) = 0;

  /// Whatever is due; asks for the next job when none runs.
  virtual void tick(Time now, Membership& members, Effects& out, std::vector<Job>& jobs) = 0;
  virtual Time deadline() const = 0;

  /// Our incarnation rose: others thought us dead or suspected us.
  virtual void woke_up(Time now, Membership& members, Effects& out) = 0;

  /// Nothing new with others; ends with a last job that saves, after which finished() is true.
  virtual void leave(Time now, Membership& members, Effects& out, std::vector<Job>& jobs) = 0;
  /// Something with another peer is under way that should settle before we are gone.
  virtual bool is_settling() const = 0;

  virtual bool finished() const = 0;
  /// The budget is done and nobody needs us any more: time to leave.
  virtual bool is_over(const Membership& members) const = 0;

  virtual Phase phase() const = 0;
  virtual std::uint64_t step() const = 0;
  virtual double steps_per_second() const = 0;
  /// Mean training loss and accuracy over the last jobs (exponential average).
  virtual double recent_loss() const = 0;
  virtual double recent_accuracy() const = 0;
  virtual double learning_rate() const = 0;
};

}  // namespace gv
