// The inside of the simulator: what it keeps for each peer and each link, and what can happen.
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

#include "sim/link_faults.hpp"
#include "sim/virtual/event_queue.hpp"
#include "sim/virtual/hostile.hpp"
#include "sim/virtual/link.hpp"
#include "sim/virtual/simulator.hpp"

namespace gv {

/// One queue of events and what a host would do for each peer. The parts: events and nodes in
/// simulator.cpp, links and lanes in world_links.cpp, processes in world_lives.cpp, what goes wrong
/// in world_faults.cpp.
struct Simulator::World {
  struct Arrival {
    PeerNumber from = 0;
    PeerNumber to = 0;
    std::uint32_t to_life = 0;  ///< What was sent to an earlier process is lost with it.
    Message message;
  };

  struct BlockArrival {
    PeerNumber from = 0;
    PeerNumber to = 0;
    std::uint32_t to_life = 0;
    TransferId id;
    std::uint64_t offset = 0;
    Payload payload;  ///< Just this block of it.
  };

  /// A peer's deadline, or the end of its job.
  struct Due {
    PeerNumber peer = 0;
    std::uint32_t incarnation = 0;
    std::uint64_t number = 0;  ///< Of the timer, or of the job.
    bool job = false;
  };

  /// What a job has made before its steps is there.
  struct Opened {
    PeerNumber peer = 0;
    std::uint32_t incarnation = 0;
    std::uint64_t job = 0;  ///< As the peer numbers it.
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
    bool again = false;  ///< An earlier life of the other was known.
  };

  /// The link can carry the next block of a transfer.
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

  struct SparseVector {
    Transfer transfer;
    std::uint32_t from_life = 0;
    std::uint32_t to_life = 0;
  };

  struct Lane {
    std::deque<SparseVector> streams;
    bool pumping = false;
  };

  /// What a host keeps for one peer.
  struct Machine {
    std::map<std::size_t, FaultRule> faults;  ///< Under way at this peer, by FaultEvent::fault.
    bool told_to_leave = false;               ///< While stopped: it will when it wakes.
    std::optional<std::size_t> taken_by;      ///< The fault that ended it brings it back, if any.
    Time armed = never;  ///< In true time; an earlier tick than needed does no harm.
    std::uint64_t timer = 0;
    std::optional<Job> job;
    std::optional<Job> next_job;    ///< Begins when that one is done.
    std::optional<JobDone> opened;  ///< What its first part came to, if it has two.
    Time job_began{};
    Time job_booked{};     ///< What follows is as of then.
    Duration job_work{};   ///< Left of its steps, at the pace without a slow CPU,
    Duration job_write{};  ///< and left of writing its checkpoint.
    double job_cpu = 1;    ///< What the faults of its CPU make of the pace.
    std::uint64_t jobs = 0;
    Rng pace{0};
    Time state_since{};
    std::optional<Time> joining_since;
    std::map<PeerNumber, std::uint32_t> met;    ///< With the life they had then.
    std::map<PeerNumber, std::uint32_t> heard;  ///< Whose answer came, with the life it had then.
    std::set<PeerNumber> lanes;                 ///< Blocks went there or came from there.
    std::set<PeerNumber> known;  ///< Members it had and that did not leave: its cache on disk.
    double clock_rate = 1;
    Time clock_true{};  ///< The clock showed `clock_local` at this moment and runs at its rate
                        ///< since.
    Time clock_local{};
  };

  struct WorldLink {
    Link link;
    std::uint64_t version = 0;  ///< Of the faults its quality was computed with.
  };

  using Backlog = std::variant<Arrival, BlockArrival, LaneBroken, Met>;
  using Event =
      std::variant<Arrival, BlockArrival, Due, Opened, LaneBroken, Met, Pump, Dial, FaultEvent>;

  World(Simulator& simulator, Options given, MakeWorkload make_work);

  Simulator& outer;
  Options options;
  MakeWorkload make;
  Rng root;
  Rng link_draws;
  Rng disk_draws;
  Time now{};
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
  std::size_t running = 0;      ///< Peers that are up or stopped.
  std::size_t starts_left = 0;  ///< Happenings to come that start a peer.
  std::size_t wait_for = 1;

  // ---- Events (simulator.cpp) ----

  void mix(std::uint64_t value) { hash = hash_combine(hash, value); }
  void mix_event(std::size_t kind, PeerNumber peer, std::uint64_t other);
  Time local(PeerNumber number) const;
  Time to_true(PeerNumber number, Time time) const;
  void carry_out(PeerNumber number, NodeEffects& effects);
  void arm(PeerNumber number);
  void begin_job(PeerNumber number, Job job);
  void open_job(PeerNumber number, Job& job);
  void book_job(PeerNumber number);
  void time_job(PeerNumber number);
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

  template <class Call>
  void feed(PeerNumber number, const Input& input, Call call) {
    VirtualPeer& peer = peers[number];
    for (Watcher* watcher : watchers) watcher->on_input(outer, input);
    NodeEffects effects;
    call(*peer.node, local(number), effects);
    carry_out(number, effects);
    if (peer.node) account_joining(number);
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

  /// What a stopped process's sockets hold before more is lost.
  static constexpr std::size_t backlog_max = 100000;

  /// Keeps for later what comes to a stopped peer; false when it can be handled now.
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
  void transmit(PeerNumber from, Transfer transfer);
  void pump(PeerNumber from, PeerNumber to);
  void break_lane(PeerNumber a, PeerNumber b);

  // ---- Processes (world_lives.cpp) ----

  bool is_reachable(PeerNumber number) const {
    const PeerState state = peers[number].state;
    return state == PeerState::up || state == PeerState::stopped;
  }
  void set_state(PeerNumber number, PeerState state);
  void account(PeerNumber number);
  void account_joining(PeerNumber number);
  void start(PeerNumber number);
  std::vector<PeerNumber> first_contact(PeerNumber number) const;
  void end(PeerNumber number, PeerState state);
  void stop(PeerNumber number);
  void wake(PeerNumber number);
  void leave(PeerNumber number);
  void switch_to(PeerNumber number, const std::string& settings);
  static bool starts_peers(const FaultEvent& fault_event);
  /// Virtual peers of a pipeline keep nothing: whoever comes back is a newcomer.
  bool keeps_images() const { return options.node.mode != ModeKind::pipeline; }
  void prepare();

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
