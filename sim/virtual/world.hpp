// The internals of the simulator: its state for each peer and link, and its events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "consensus/trust/trust.hpp"
#include "peer/modes/modes.hpp"
#include "sim/link_faults.hpp"
#include "sim/virtual/event_queue.hpp"
#include "sim/virtual/hostile.hpp"
#include "sim/virtual/link.hpp"
#include "sim/virtual/saboteur.hpp"
#include "sim/virtual/simulator.hpp"

namespace gv {

/// The event queue, and the work that a host does for each peer. Events and nodes are in
/// simulator.cpp, links and lanes in world_links.cpp, processes in world_lives.cpp, faults in
/// world_faults.cpp.
struct Simulator::World {
  struct Arrival {
    PeerNumber from = 0;
    PeerNumber to = 0;
    std::uint32_t to_life = 0;  ///< Incarnation of `to`; a message to an earlier one is lost.
    Message message;
  };

  struct BlockArrival {
    PeerNumber from = 0;
    PeerNumber to = 0;
    std::uint32_t to_life = 0;
    TransferId id;
    std::uint64_t offset = 0;
    Payload payload;  ///< The bytes of this block only, not of the whole transfer.
  };

  /// The deadline of a peer, or the end of its job.
  struct Due {
    PeerNumber peer = 0;
    std::uint32_t incarnation = 0;
    std::uint64_t number = 0;  ///< Number of the timer, or of the job.
    bool job = false;
  };

  /// A job's messages that precede its steps can leave now.
  struct Opened {
    PeerNumber peer = 0;
    std::uint32_t incarnation = 0;
    std::uint64_t job = 0;  ///< The peer's number for the job.
  };

  struct LaneBroken {
    PeerNumber peer = 0;
    PeerNumber other = 0;
    std::uint32_t incarnation = 0;
  };

  struct Met {
    PeerNumber peer = 0;
    PeerNumber other = 0;
    std::uint32_t incarnation = 0;
    std::uint32_t other_life = 0;
    bool again = false;  ///< True if the peer had met an earlier incarnation of `other`.
  };

  /// A saboteur puts a block on a lane, outside any transfer.
  struct Thrown {
    PeerNumber from = 0;
    std::uint32_t incarnation = 0;
    LooseBlock block;
  };

  /// A saboteur acts on its own.
  struct Mischief {
    PeerNumber peer = 0;
  };

  /// A link can carry the next block of a transfer.
  struct Pump {
    PeerNumber from = 0;
    PeerNumber to = 0;
  };

  struct Dial {
    PeerNumber from = 0;
    PeerNumber to = 0;
    std::uint32_t incarnation = 0;
    int tries = 0;
  };

  /// An action that concerns a peer's certificates is due.
  struct Admission {
    enum class Kind {
      ask,    ///< The peer asks for a certificate with a ticket, and then starts.
      show,   ///< The peer receives the certificates `shown`.
      leave,  ///< The peer leaves, because it no longer belongs to the swarm.
    };
    Kind kind = Kind::ask;
    PeerNumber peer = 0;
    std::uint32_t incarnation = 0;
    Certificates shown;
  };

  struct Stream {
    Transfer transfer;
    std::uint32_t from_life = 0;
    std::uint32_t to_life = 0;
  };

  struct Lane {
    std::deque<Stream> streams;
    bool pumping = false;
  };

  /// The state that a host keeps for one peer.
  struct Machine {
    /// Faults in effect at this peer, by FaultEvent::fault.
    std::map<std::size_t, FaultRule> faults;
    /// True if the peer was told to leave while it was stopped. It then leaves when it wakes.
    bool told_to_leave = false;
    std::optional<std::size_t> taken_by;  ///< The fault that ended the peer, and may restart it.
    Time armed = never;  ///< True time of the next tick. An unneeded tick is harmless.
    std::uint64_t timer = 0;
    std::optional<Job> job;
    std::optional<Job> next_job;    ///< Begins when `job` is done.
    std::optional<JobDone> opened;  ///< The result of the job's first part, if that has run.
    Time job_began{};
    Time job_booked{};     ///< When `job_work` and `job_write` were last computed.
    Duration job_work{};   ///< Time left for the job's steps, without a slow CPU.
    Duration job_write{};  ///< Time left to write the job's checkpoint.
    double job_cpu = 1;    ///< Factor by which CPU faults change the pace.
    std::uint64_t jobs = 0;
    Rng pace{0};
    Time booked_until{};
    std::optional<Time> joining_since;
    /// Peers that this peer has met, each with 1 plus its incarnation at that time.
    std::map<PeerNumber, std::uint32_t> met;
    /// Peers that have answered, each with its incarnation at that time.
    std::map<PeerNumber, std::uint32_t> heard;
    std::set<PeerNumber> lanes;  ///< Peers with which this peer has exchanged blocks.
    /// Known members that have not left, as in the cache on the peer's disk.
    std::set<PeerNumber> known;
    /// Certificates on the peer's disk. Empty before the peer joins.
    std::vector<Certificate> certificates;
    std::vector<Revocation> revocations;
    double clock_rate = 1;
    /// At `clock_true`, the peer's clock showed `clock_local`. It has since run at `clock_rate`.
    Time clock_true{};
    Time clock_local{};
  };

  struct WorldLink {
    Link link;
    std::uint64_t version = 0;  ///< The `link_version` for which the link's state was computed.
  };

  using Backlog = std::variant<Arrival, BlockArrival, LaneBroken, Met>;
  using Event = std::variant<Arrival, BlockArrival, Due, Opened, LaneBroken, Met, Pump, Dial,
                             FaultEvent, Thrown, Mischief, Admission>;

  World(Simulator& simulator, Options given, MakeWorkload make_work);

  Simulator& outer;
  Options options;
  MakeWorkload make;
  Rng root;
  Rng link_draws;
  Rng disk_draws;
  Time now{};
  std::uint64_t signing_secret;        ///< Secret of all stand-in signers.
  std::vector<StandInSigner> signers;  ///< Indexed by peer number.
  std::vector<VirtualPeer> peers;
  std::vector<Machine> machines;
  std::vector<std::vector<Backlog>> backlogs;
  std::vector<std::vector<PeerId>> allow_lists;
  std::vector<Watcher*> watchers;
  WorldCounts counts;
  std::uint64_t hash = 0;
  EventQueue<Event> queue;
  std::unordered_map<std::uint64_t, WorldLink> links;
  std::unordered_map<std::uint64_t, Lane> lanes;
  std::uint64_t link_version = 1;
  LinkFaults link_faults;
  HostileSenders hostile;
  std::map<PeerNumber, Saboteur> saboteurs;
  Rng ticket_draws;
  StandInSigner swarm_signer;               ///< Signs with the swarm's key.
  std::uint64_t wall_s = 1'700'000'000;     ///< Wall-clock time at the beginning, in seconds.
  std::set<PeerId> invited;                 ///< All keys that honest peers have certified.
  std::map<PeerId, PeerNumber> revoked_by;  ///< The last honest revoker of each revoked key.
  std::size_t running = 0;                  ///< Peers that are up or stopped.
  std::size_t starts_left = 0;              ///< Number of future fault events that start a peer.
  std::size_t wait_for = 1;

  // ---- Events (simulator.cpp) ----

  void mix(std::uint64_t value) { hash = hash_combine(hash, value); }
  void mix_event(std::size_t kind, PeerNumber peer, std::uint64_t other);
  Time local(PeerNumber number) const;
  Time to_true(PeerNumber number, Time time) const;
  void carry_out(PeerNumber number, NodeEffects& effects);
  void arm(PeerNumber number);
  double steps_in(const Job& job) const;
  void begin_job(PeerNumber number, Job job);
  void open_job(PeerNumber number, Job& job);
  void book_job(PeerNumber number);
  void time_job(PeerNumber number);
  JobLeft job_left(PeerNumber number) const;
  void finish_job(PeerNumber number);
  void handle(Arrival& event);
  void handle(BlockArrival& event);
  void handle(Due& event);
  void handle(Opened& event);
  void handle(LaneBroken& event);
  void handle(Met& event);
  void handle(Dial& event);
  void handle(FaultEvent& event);
  void handle(Pump& event) { pump(event.from, event.to); }
  void handle(Thrown& event);
  void handle(Mischief& event);
  void handle(Admission& event);

  template <class Call>
  void feed(PeerNumber number, const Input& input, Call call) {
    VirtualPeer& peer = peers[number];
    for (Watcher* watcher : watchers) watcher->on_input(outer, input);
    NodeEffects effects;
    call(*peer.node, local(number), effects);
    carry_out(number, effects);
    if (peer.node) account_joining(number);
    if (options.scenario.tickets) follow_trust(number);
    if (peer.node && peer.node->is_finished()) {
      end(number, PeerState::ended);
    } else if (peer.node) {
      arm(number);
    }
    for (Watcher* watcher : watchers) watcher->after(outer, number);
  }

  bool is_for(PeerNumber number, std::uint32_t incarnation) const {
    return peers[number].incarnation == incarnation;
  }

  /// Largest number of events kept for a stopped process. Further events are lost, as with full
  /// sockets.
  static constexpr std::size_t backlog_max = 100000;

  /// Keeps an event for a stopped peer. Returns false if the peer can handle it now.
  template <class Kind>
  bool postponed(PeerNumber number, Kind& event) {
    if (peers[number].state != PeerState::stopped) return false;
    if (backlogs[number].size() < backlog_max) {
      backlogs[number].emplace_back(std::in_place_type<Kind>, std::move(event));
    } else {
      ++counts.lost;
    }
    return true;
  }

  // ---- Links and lanes (world_links.cpp) ----

  static std::uint64_t pair_key(PeerNumber from, PeerNumber to) {
    return static_cast<std::uint64_t>(from) << 32 | to;
  }

  Link& link(PeerNumber from, PeerNumber to);
  Passage pass(PeerNumber from, PeerNumber to, std::size_t bytes);
  void send(PeerNumber from, PeerNumber to, Message message);
  void meet(PeerNumber from, PeerNumber to, Time arrival);
  void part_with(PeerNumber from, Transfer transfer);
  void commit(PeerNumber from, Deeds deeds);
  void transmit(PeerNumber from, Transfer transfer);
  void pump(PeerNumber from, PeerNumber to);
  void break_lane(PeerNumber a, PeerNumber b);

  // ---- Processes (world_lives.cpp) ----

  bool is_reachable(PeerNumber number) const {
    const PeerState state = peers[number].state;
    return state == PeerState::up || state == PeerState::stopped;
  }
  /// True if the peer has ended or been revoked. A revoked peer may not know yet that it is
  /// revoked.
  bool has_ended(PeerNumber number) const {
    return peers[number].state == PeerState::ended || revoked_by.contains(id_of(number));
  }
  void set_state(PeerNumber number, PeerState state);
  void account(PeerNumber number);
  void account_joining(PeerNumber number);
  void start(PeerNumber number);
  std::optional<PeerNumber> first_contact(PeerNumber number) const;
  void end(PeerNumber number, PeerState state);
  void stop(PeerNumber number);
  void wake(PeerNumber number);
  void leave(PeerNumber number);
  void switch_to(PeerNumber number, const std::string& settings);
  static bool starts_peers(const FaultEvent& fault_event);
  /// True if peers may be in a mode with generations.
  bool may_have_generations() const {
    return options.node.mode != ModeKind::gossip || has_switches(options.scenario);
  }
  /// False in a pipeline: its virtual peers keep no checkpoints, so a restarted one is a newcomer.
  bool keeps_images() const { return options.node.mode != ModeKind::pipeline; }
  void prepare();
  void prepare_saboteurs();
  void revoke(PeerNumber number);

  // ---- Certificates (world_tickets.cpp) ----

  PeerKey swarm_key() const;
  bool accepts(PeerNumber number, PeerNumber other) const;
  /// True if the two peers' certificates allow a link between them.
  bool may_talk(PeerNumber a, PeerNumber b) const {
    return !options.scenario.tickets || (accepts(a, b) && accepts(b, a));
  }
  bool is_member(PeerNumber number) const {
    return !options.scenario.tickets || number == 0 || !machines[number].certificates.empty();
  }
  Trust trust_of(PeerNumber number);
  void follow_trust(PeerNumber number);
  std::optional<Certificate> invite(PeerNumber by, const PeerKey& key, const std::string& name,
                                    bool may_invite);
  void join_by_ticket(PeerNumber number);
  void show_certificates(PeerNumber from, PeerNumber to);
  bool revoke_by(PeerNumber number, PeerId target);
  void lie_about_certificates(PeerNumber number);
  void set_walls(std::uint64_t ahead_s);

  // ---- Faults (world_faults.cpp) ----

  double slowness(PeerNumber number) const;
  void set_clock(PeerNumber number, Duration jump, double rate);
  void refresh(PeerNumber number);
  void apply(const FaultEvent& fault_event);
  void apply_to(const FaultEvent& fault_event, PeerNumber number);
  void revert(const FaultEvent& fault_event, PeerNumber number);
  void heal();
};

}  // namespace gv
