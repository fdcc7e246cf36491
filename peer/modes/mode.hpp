// The interface between a node and its mode.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "base/problems.hpp"
#include "consensus/membership/membership.hpp"
#include "consensus/message/effects.hpp"
#include "peer/modes/course.hpp"
#include "peer/modes/mode_report.hpp"
#include "peer/node/job.hpp"

namespace gv {

class Generations;
class SwarmWork;
class GossipMode;
class AllReduceMode;
class PipelineMode;
class MixingMode;

/// A peer's place in the order of peers in lockstep, if all of them are on one host.
struct HostPlace {
  std::size_t place = 0;
  std::size_t peers = 1;
};

/// A way in which peers work together. A mode owns its parts, one of which is a Course. Pure: it
/// appends messages to send and jobs to do, and gets results and the time as arguments. Jobs are
/// done in the order of their requests. After every other input the node calls tick().
class Mode {
 public:
  virtual ~Mode() = default;

  /// Called once, when the replica exists. A resumed run continues at `step` (see Course::start).
  virtual void start(Time now, std::uint64_t step, bool joins_others) = 0;

  virtual void receive(Time now, PeerId from, const Message& message, Membership& members,
                       Effects& out) = 0;
  virtual void receive_block(Time now, PeerId from, const Block& block, Effects& out) = 0;
  /// The memory that `bytes` of an arriving block belong in; empty: the caller may put them
  /// anywhere. The memory may be written to until any other function here is called.
  virtual std::span<std::byte> place(PeerId /*from*/, const TransferId&, std::uint64_t /*offset*/,
                                     std::size_t /*bytes*/) {
    return {};
  }
  virtual void lane_lost(Time now, PeerId peer, Effects& out) = 0;
  virtual void lane_refused(Time now, PeerId peer, Effects& out) = 0;
  virtual void peer_gone(Time now, PeerId peer, Effects& out) = 0;
  /// Called when the links with that peer are quarantined for a while.
  virtual void refuse(Time, PeerId, Effects&) {}

  /// The gradient that the job of this number computes is final from element `begin` on.
  virtual void gradient_ready(Time, std::uint64_t /*job*/, std::size_t /*begin*/, Effects&) {}

  /// Called when the oldest job under way is done.
  virtual void complete(Time now, JobDone done, Membership& members, Effects& out) = 0;

  /// Does what is due, and requests the next job if none is running.
  virtual void tick(Time now, Membership& members, Effects& out, std::vector<Job>& jobs) = 0;
  virtual Time deadline() const = 0;

  /// Called when our incarnation rose, because other peers suspected us or believed us dead.
  virtual void woke_up(Time, Membership&, Effects&) {}

  /// While `held`, the common end of all peers must not begin here.
  virtual void hold_end(bool /*held*/) {}
  /// Another mode is about to replace this one. Begins no further step and no work with other
  /// peers; work under way still ends. Not for a pipeline.
  virtual void wind_down(Time, Effects&) {}
  /// True once all of that has ended and the replica has forgotten the state of this mode.
  virtual bool has_wound_down() const { return false; }

  /// Makes all peers use these settings from an agreed moment on. If that is impossible, returns
  /// why.
  virtual Problems switch_to(Time now, std::string_view settings);

  /// The newest settings to which all peers have switched, to be kept for a restart; null if peers
  /// cannot switch.
  virtual const SettingsRevision* revision() const { return nullptr; }
  /// The number of the newest settings that we have heard of; 0: none.
  virtual std::uint64_t revision_heard() const { return 0; }

  /// Begins no new work with other peers. The last job saves, and then the course is finished.
  virtual void leave(Time now, Effects& out) = 0;

  /// True if all data that we wait for come from peers on this host, and may arrive before we could
  /// fall asleep.
  virtual bool should_busy_poll() const { return false; }
  /// Our place, if all peers for which we wait at every step are on this host.
  virtual std::optional<HostPlace> host_place() const { return {}; }
  /// True if work with another peer is under way that should settle before we leave.
  virtual bool is_settling() const { return false; }
  /// True if no result is waiting for the next job.
  virtual bool is_idle() const = 0;

  virtual const Course& course() const = 0;
  /// The course of training, for reports.
  virtual const Course& training() const { return course(); }
  /// Our phase in the run, as other peers see it.
  virtual Phase phase() const { return course().phase(); }
  virtual std::uint64_t step() const = 0;
  virtual double steps_per_second() const = 0;
  /// In a population, our newest published validation.
  virtual std::optional<Trial> trial() const { return std::nullopt; }
  /// The swarm's budget; null if each peer has its own.
  virtual const SwarmWork* swarm_work() const { return nullptr; }
  /// Null in a mode without generations.
  virtual const Generations* generations() const { return nullptr; }

  /// `members` provide the names of peers.
  virtual ModeReport report(const Membership& members) const = 0;

  /// The report of our training that other peers get.
  Progress progress() const;
};

/// The peer's name among the members, or its id.
std::string name_of(PeerId peer, const Membership& members);
std::vector<std::string> names_of(const std::vector<PeerId>& peers, const Membership& members);

/// A mode by its type.
using AnyMode =
    std::variant<const GossipMode*, const AllReduceMode*, const PipelineMode*, const MixingMode*>;

/// A mode, and a pointer to it by its type.
struct MadeMode {
  std::unique_ptr<Mode> mode;
  AnyMode as;
};

}  // namespace gv
