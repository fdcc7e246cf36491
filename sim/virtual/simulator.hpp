// Many peers in one thread on a virtual clock: real nodes with simulated links, disks and faults.
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
/// Stands for the swarm's key.
inline constexpr PeerId swarm_id{std::uint64_t{1} << 40};

enum class PeerState { absent, up, stopped, down, ended };

/// Seconds of virtual time that one peer spent on each activity.
struct TimeSpent {
  double training = 0;  ///< Jobs with steps, without delay by a slow CPU.
  double slowed = 0;    ///< Delay by a slow CPU.
  double joining = 0;   ///< At the start barrier, or downloading a model.
  double stopped = 0;
  double down = 0;
};

/// Totals of a world.
struct WorldCounts {
  std::uint64_t events = 0;
  std::uint64_t messages = 0;
  std::uint64_t control_bytes = 0;
  std::uint64_t lane_bytes = 0;
  std::uint64_t lost = 0;  ///< Messages and blocks that did not arrive, damaged ones included.
  std::uint64_t damaged = 0;
  std::uint64_t duplicated = 0;
  std::uint64_t fault_events = 0;
  std::uint64_t superseded = 0;  ///< Transfers dropped for newer ones before they began.
};

class Simulator;

/// One input, as a watcher sees it. The kind decides which pointers are set; they are valid only
/// during the call.
struct Input {
  enum class Kind { start, contact, message, block, tick, opened, done, lane_lost, leave, command };
  Kind kind = Kind::tick;
  PeerNumber peer = 0;
  PeerId from{};  ///< contact, message, block, lane_lost.
  const Message* message = nullptr;
  const Block* block = nullptr;
  const JobDone* done = nullptr;
};

/// Sees everything and changes nothing: checkers, traces, curves.
class Watcher {
 public:
  virtual ~Watcher() = default;
  /// The peer is about to get `input`.
  virtual void on_input(const Simulator&, const Input&) {}
  /// The effects that the peer asks for in response, including facts.
  virtual void on_effects(const Simulator&, PeerNumber, const NodeEffects&) {}
  /// The peer's replica is about to run `job`.
  virtual void on_job(const Simulator&, PeerNumber, const Job&) {}
  virtual void on_job_done(const Simulator&, PeerNumber, const JobDone&) {}
  virtual void on_fault_event(const Simulator&, const FaultEvent&) {}
  virtual void on_state(const Simulator&, PeerNumber, PeerState) {}
  /// A checkpoint of that step is on the disk, or (if not `whole`) the peer died while writing it.
  virtual void on_save(const Simulator&, PeerNumber, std::uint64_t, bool) {}
  /// A restarted peer continues from `image`, or from its first model if that is null.
  virtual void on_restore(const Simulator&, PeerNumber, const Image*) {}
  /// All effects of an event at this peer have been carried out.
  virtual void after(const Simulator&, PeerNumber) {}
};

/// Makes a peer's replica before its first step.
using MakeWorkload = std::function<std::unique_ptr<Replica>(std::size_t peer)>;

/// One virtual peer as watchers see it.
struct VirtualPeer {
  PeerState state = PeerState::absent;
  Time since{};                   ///< When the state began.
  std::uint32_t incarnation = 0;  ///< Counts starts and ends.
  std::unique_ptr<Node> node;     ///< Exists while up or stopped.
  std::unique_ptr<Replica> work;
  Disk disk;
  double speed = 1;
  TimeSpent spent;
};

/// What is left of the job that a peer does now.
struct JobLeft {
  std::uint64_t steps = 0;  ///< Local steps of the whole job.
  Duration time{};          ///< Until its end, if no fault changes the peer's pace.
};

/// Runs peers until nothing is left to do or the time is up. Everything is a function of the
/// options: equal options give equal traces, bit by bit.
class Simulator {
 public:
  struct Options {
    std::size_t peers = 4;
    std::uint64_t seed = 1;
    Scenario scenario;
    NodeOptions node;  ///< Options of every peer; includes the layout.
    /// Size of the start barrier. 0: the number of peers at the start, or 2 if each peer may meet
    /// only some.
    std::size_t wait_for = 0;
    std::vector<std::uint64_t> steps;  ///< Budget of each peer; empty: `node.course.steps`.
    std::vector<std::uint64_t> data;   ///< Samples of each peer's shard; empty: as in `node`.
    /// True seconds of a pipeline's stages; empty: those that peers assume.
    std::vector<double> stage_seconds;
  };

  Simulator(Options options, MakeWorkload make);
  ~Simulator();

  /// Watchers are called in the order they were added. They must outlive the simulator.
  void watch(Watcher& watcher);

  /// Handles the next event unless it is after `end`. Returns false if there is none.
  bool step(Time end = never);
  /// Handles all events up to `end`, or until every peer has ended. The time is then `end`, or that
  /// of the last event.
  void run(Time end = never);

  Time now() const;
  bool all_ended() const;
  std::size_t size() const;
  const VirtualPeer& peer(PeerNumber number) const;
  /// Peers that this peer may meet, sorted. It does not matter whether the list contains the peer
  /// itself.
  const std::vector<PeerId>& allowed(PeerNumber number) const;
  /// True for a saboteur: the messages under its id are not the ones that its node sent.
  bool is_hostile(PeerNumber number) const;
  /// Number of hostile peers.
  std::size_t hostile_count() const;
  /// Transfers waiting on the peer's fullest lane.
  std::size_t longest_lane(PeerNumber number) const;
  /// Nothing, if the peer does no job or is not up.
  JobLeft job_left(PeerNumber number) const;
  const WorldCounts& counts() const;
  const Options& options() const;
  /// True if peers may be in a mode with generations, at the start or after a switch.
  bool may_have_generations() const;
  /// Returns the signer of that peer. A hostile peer has only its own.
  StandInSigner signer(PeerId peer) const;

  /// The peer's own clock now.
  Time local(PeerNumber number) const;

  /// A hash over the time, peer and content of every event so far.
  std::uint64_t trace_hash() const;

  /// Ends every fault, wakes stopped peers and restarts killed ones. Cancels all scheduled faults.
  void heal();
  /// Ends the peer's process for good and removes it from all allow-lists, as operators do with a
  /// stolen key.
  void revoke(PeerNumber number);

  // Only with scenario.tickets:

  /// True if a sound peer of the swarm has certified that key.
  bool is_invited(PeerId peer) const;
  /// The sound peer that has revoked that key, if any.
  std::optional<PeerNumber> revoker(PeerId peer) const;
  /// Lets a running peer certify a guest, which is not a virtual peer, or revoke a key. Returns
  /// false if it has no right to, or does not know the key.
  bool invite(PeerNumber by, PeerId guest);
  bool revoke_by(PeerNumber by, PeerId target);
  /// Moves all wall clocks ahead.
  void set_walls(std::uint64_t ahead_s);

  /// Delivers a message from a peer outside the swarm, or a forged one, directly to a peer's node.
  void send_from_outside(PeerId from, PeerNumber to, Message message);

 private:
  struct World;
  std::unique_ptr<World> world_;
};

}  // namespace gv
