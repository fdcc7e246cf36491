// Declares the interface through which a node uses its mode.
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

/// A peer's place in the order of the peers in lockstep. Exists only if all of them are on one
/// host.
struct HostPlace {
  std::size_t place = 0;
  std::size_t peers = 1;
};

/// A way in which peers work together. A mode owns its parts, one of which is a Course. Pure: it
/// appends messages to send and jobs to do, and takes results and the time as arguments. Jobs are
/// run in the order in which they are requested. The node calls tick() after every other input.
class Mode {
 public:
  virtual ~Mode() = default;

  /// Called once, when the replica exists. A resumed run continues at `step` (see Course::start).
  virtual void start(Time now, std::uint64_t step, bool joins_others) = 0;

  virtual void receive(Time now, PeerId from, const Message& message, Membership& members,
                       Effects& out) = 0;
  virtual void receive_block(Time now, PeerId from, const Block& block, Effects& out) = 0;
  /// Returns the memory for `bytes` bytes of an arriving block. If that memory is empty, the caller
  /// may choose where to put the bytes. The memory may be written to until the next call of another
  /// function of the mode.
  virtual std::span<std::byte> place(PeerId /*from*/, const TransferId&, std::uint64_t /*offset*/,
                                     std::size_t /*bytes*/) {
    return {};
  }
  virtual void lane_lost(Time now, PeerId peer, Effects& out) = 0;
  virtual void lane_refused(Time now, PeerId peer, Effects& out) = 0;
  virtual void peer_gone(Time now, PeerId peer, Effects& out) = 0;
  /// Called when the node has quarantined its links to the given peer for a while.
  virtual void refuse(Time, PeerId, Effects&) {}

  /// Called when the gradient of this job is final from element `begin` to its end.
  virtual void gradient_ready(Time, std::uint64_t /*job*/, std::size_t /*begin*/, Effects&) {}

  /// Called when the oldest job under way is done.
  virtual void complete(Time now, JobDone done, Membership& members, Effects& out) = 0;

  /// Does all work that is due. If no job is running, requests the next one.
  virtual void tick(Time now, Membership& members, Effects& out, std::vector<Job>& jobs) = 0;
  virtual Time deadline() const = 0;

  /// Called when our incarnation has risen because other peers suspected us or declared us dead,
  /// and after a sleep so long that they have forgotten us.
  virtual void woke_up(Time, Membership&, Effects&) {}

  /// While `held`, this peer must not begin the common end of the run.
  virtual void hold_end(bool /*held*/) {}
  /// Called when another mode is about to replace this one. No further steps and no further work
  /// with other peers begin, but the work under way still ends. Never called for a pipeline.
  virtual void wind_down(Time, Effects&) {}
  /// True once the work under way has ended and the replica has forgotten the state of this mode.
  virtual bool has_wound_down() const { return false; }

  /// Makes all peers use these settings from an agreed moment on. Returns the problems that prevent
  /// this.
  virtual Problems switch_to(Time now, std::string_view settings);

  /// The newest settings to which all peers have switched, which the caller keeps for a restart;
  /// null if this mode cannot switch.
  virtual const SettingsRevision* revision() const { return nullptr; }
  /// The number of the newest settings revision that we know; 0 if none.
  virtual std::uint64_t revision_heard() const { return 0; }

  /// Begins no new work with other peers. The last job saves a checkpoint, and then the course
  /// ends.
  virtual void leave(Time now, Effects& out) = 0;

  /// True if all data that we wait for come from peers on this host, and may arrive before this
  /// thread could even fall asleep.
  virtual bool should_busy_poll() const { return false; }
  /// Our place among the peers on this host; empty unless all peers that we wait for in every step
  /// are on it.
  virtual std::optional<HostPlace> host_place() const { return {}; }
  /// True if work with another peer is under way that should be finished before we leave.
  virtual bool is_settling() const { return false; }
  /// True if no result waits for the next job.
  virtual bool is_idle() const = 0;

  virtual const Course& course() const = 0;
  /// The course of our training, for reports.
  virtual const Course& training() const { return course(); }
  /// Our phase in the run, as other peers see it.
  virtual Phase phase() const { return course().phase(); }
  virtual std::uint64_t step() const = 0;
  virtual double steps_per_second() const = 0;
  /// Our newest published validation result, if we are in a population.
  virtual std::optional<Trial> trial() const { return std::nullopt; }
  /// The budget that the swarm shares; null if each peer has its own.
  virtual const SwarmWork* swarm_work() const { return nullptr; }
  /// The mode's generations; null if it has none.
  virtual const Generations* generations() const { return nullptr; }

  /// Makes the report. Finds the names of peers in `members`.
  virtual ModeReport report(const Membership& members) const = 0;

  /// Our training progress, as we report it to other peers.
  Progress progress() const;
};

/// Returns the peer's name among the members, or its id if it has no name.
std::string name_of(PeerId peer, const Membership& members);
std::vector<std::string> names_of(const std::vector<PeerId>& peers, const Membership& members);

/// A pointer to a mode, with the mode's own class as its type.
using AnyMode =
    std::variant<const GossipMode*, const AllReduceMode*, const PipelineMode*, const MixingMode*>;

/// A mode, and a pointer to it that has the mode's own class as its type.
struct MadeMode {
  std::unique_ptr<Mode> mode;
  AnyMode as;
};

}  // namespace gv
