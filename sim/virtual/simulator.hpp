// Many peers in one thread on a virtual clock: real nodes, but simulated links, disks and faults.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "peer/modes/modes.hpp"
#include "peer/node/node.hpp"
#include "sim/scenario.hpp"
#include "sim/virtual/disk.hpp"
#include "sim/virtual/stand_in_signer.hpp"

namespace gv {

/// Peers are numbered from 0; the PeerId of number i is i + 1.
using PeerNumber = std::uint32_t;
constexpr PeerId id_of(PeerNumber number) { return PeerId{number + 1ULL}; }
constexpr PeerNumber number_of(PeerId id) { return static_cast<PeerNumber>(id) - 1; }

/// The key of a virtual peer, from which stand-in signers derive its id.
constexpr PeerKey key_of(PeerId id) {
  PeerKey key{};
  for (std::size_t i = 0; i < 8; ++i) {
    key[i] = static_cast<std::uint8_t>(static_cast<std::uint64_t>(id) >> (8 * i) & 0xff);
  }
  return key;
}
/// The id that stands for the swarm's key.
inline constexpr PeerId swarm_id{std::uint64_t{1} << 40};

enum class PeerState { absent, up, stopped, down, ended };

/// Seconds of virtual time that one peer spent on each activity.
struct TimeSpent {
  double training = 0;  ///< Time in jobs with steps, without the delay of a slow CPU.
  double slowed = 0;    ///< Delay caused by a slow CPU.
  double joining = 0;   ///< Time at the start barrier or downloading a model.
  double stopped = 0;
  double down = 0;
};

/// Counts of events in a world since its start.
struct WorldCounts {
  std::uint64_t events = 0;
  std::uint64_t messages = 0;
  std::uint64_t control_bytes = 0;
  std::uint64_t lane_bytes = 0;
  std::uint64_t lost = 0;  ///< Messages and blocks that did not arrive, including damaged ones.
  std::uint64_t damaged = 0;
  std::uint64_t duplicated = 0;
  std::uint64_t fault_events = 0;
  std::uint64_t superseded = 0;  ///< Transfers that newer ones replaced before being sent.
};

class Simulator;

/// One input, as a watcher sees it. The kind decides which pointers are set. The pointers are valid
/// only while the watcher is called.
struct Input {
  enum class Kind { start, contact, message, block, tick, opened, done, lane_lost, leave, command };
  Kind kind = Kind::tick;
  PeerNumber peer = 0;
  PeerId from{};  ///< The other peer. Set for contact, message, block and lane_lost.
  const Message* message = nullptr;
  const Block* block = nullptr;
  const JobDone* done = nullptr;
};

/// Sees everything and changes nothing. Checkers, traces and tallies are watchers.
class Watcher {
 public:
  virtual ~Watcher() = default;
  /// The peer is about to get `input`.
  virtual void on_input(const Simulator&, const Input&) {}
  /// The peer has answered the input with these effects, which include facts.
  virtual void on_effects(const Simulator&, PeerNumber, const NodeEffects&) {}
  /// The peer's replica is about to run `job`.
  virtual void on_job(const Simulator&, PeerNumber, const Job&) {}
  virtual void on_job_done(const Simulator&, PeerNumber, const JobDone&) {}
  virtual void on_fault_event(const Simulator&, const FaultEvent&) {}
  virtual void on_state(const Simulator&, PeerNumber, PeerState) {}
  /// A checkpoint of this step is on the disk or, if the last argument is false, the peer died
  /// while writing it.
  virtual void on_save(const Simulator&, PeerNumber, std::uint64_t, bool) {}
  /// A starting peer continues from the image, or from its first model if the image is null.
  virtual void on_restore(const Simulator&, PeerNumber, const Image*) {}
  /// All effects of an input to this peer have been carried out.
  virtual void after(const Simulator&, PeerNumber) {}
};

/// Makes a peer's replica, in the state before its first step.
using MakeWorkload = std::function<std::unique_ptr<Replica>(std::size_t peer)>;

/// One virtual peer as watchers see it.
struct VirtualPeer {
  PeerState state = PeerState::absent;
  Time since{};                   ///< When the state began.
  std::uint32_t incarnation = 0;  ///< Goes up by one at each start and each end.
  std::unique_ptr<Node> node;     ///< Exists while the peer is up or stopped.
  std::unique_ptr<Replica> work;
  Disk disk;
  double speed = 1;
  TimeSpent spent;
};

/// The remaining part of a peer's current job.
struct JobLeft {
  std::uint64_t steps = 0;  ///< Local steps of the whole job.
  Duration time{};          ///< Time until the end of the job, if no fault changes the peer's pace.
};

/// Runs peers until nothing is left to do or the time is up. Everything depends only on the
/// options: equal options give bit-identical traces.
class Simulator {
 public:
  struct Options {
    std::size_t peers = 4;
    std::uint64_t seed = 1;
    Scenario scenario;
    NodeOptions node;  ///< Options of every peer, including its layout.
    /// Size of the start barrier. 0 means all peers that exist at the start, or 2 if each peer may
    /// meet only some peers.
    std::size_t wait_for = 0;
    std::vector<std::uint64_t> steps;  ///< Each peer's step budget. Empty means node.course.steps.
    std::vector<std::uint64_t> data;   ///< Samples in each peer's shard. Empty means as in `node`.
    /// True durations of a pipeline's stages. Empty means the durations that peers assume.
    std::vector<double> stage_seconds;
  };

  Simulator(Options options, MakeWorkload make);
  ~Simulator();

  /// Adds a watcher, which must outlive the simulator. Watchers are called in the order in which
  /// they were added.
  void watch(Watcher& watcher);

  /// Handles the next event unless it is after `end`. Returns false if no event was handled.
  bool step(Time end = never);
  /// Handles all events up to `end`, or until every peer has ended. Afterwards the time is `end`,
  /// or the time of the last event.
  void run(Time end = never);

  Time now() const;
  bool all_ended() const;
  std::size_t size() const;
  const VirtualPeer& peer(PeerNumber number) const;
  /// Peers that this peer may meet, sorted. The list may or may not contain the peer itself.
  const std::vector<PeerId>& allowed(PeerNumber number) const;
  /// True for a saboteur: the messages under its id are not the ones that its node sent.
  bool is_hostile(PeerNumber number) const;
  /// Number of hostile peers.
  std::size_t hostile_count() const;
  /// Transfers waiting on the peer's fullest lane.
  std::size_t longest_lane(PeerNumber number) const;
  /// The remaining part of the peer's job. All 0 if the peer has no job or is not up.
  JobLeft job_left(PeerNumber number) const;
  const WorldCounts& counts() const;
  const Options& options() const;
  /// True if peers may be in a mode with generations, at the start or after a switch.
  bool may_have_generations() const;
  /// Returns the peer's signer. A hostile peer uses only its own.
  StandInSigner signer(PeerId peer) const;

  /// The peer's own clock now.
  Time local(PeerNumber number) const;

  /// A hash over the time, peer and content of every event so far.
  std::uint64_t trace_hash() const;

  /// Ends every fault, wakes stopped peers, starts absent and killed ones, and cancels all
  /// scheduled faults.
  void heal();
  /// Ends the peer's process for good, and removes or revokes its key everywhere, as operators do
  /// with a stolen key.
  void revoke(PeerNumber number);

  // The following calls are only for worlds with scenario.tickets.

  /// True if an honest peer of the swarm has certified this peer's key.
  bool is_invited(PeerId peer) const;
  /// The honest peer that has revoked this peer's key, if any.
  std::optional<PeerNumber> revoker(PeerId peer) const;
  /// Lets the running peer `by` certify a guest (not a virtual peer), or revoke a key. Returns
  /// false if `by` has no right to do so, or does not know the key.
  bool invite(PeerNumber by, PeerId guest);
  bool revoke_by(PeerNumber by, PeerId target);
  /// Moves all wall clocks ahead by this number of seconds.
  void set_walls(std::uint64_t ahead_s);

  /// Delivers a message from a peer outside the swarm, or a forged one, directly to a peer's node.
  void send_from_outside(PeerId from, PeerNumber to, Message message);

 private:
  struct World;
  std::unique_ptr<World> world_;
};

}  // namespace gv
