// The virtual world: one queue of events, and what a host would do for each peer.
#include "sim/virtual/simulator.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <deque>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>
#include <variant>

#include "consensus/base/check.hpp"
#include "sim/virtual/event_queue.hpp"
#include "sim/virtual/link.hpp"

namespace gv {
namespace {

constexpr Duration dial_again_after = std::chrono::seconds(1);
constexpr int dials_max = 600;
/// A job without steps: adding forces, copying a snapshot.
constexpr Duration small_job = std::chrono::microseconds(50);
/// What a stopped process's sockets hold before more is lost.
constexpr std::size_t backlog_max = 100000;

/// Bytes a message has on a link, roughly: exact sizes would need the wire format.
std::size_t wire_bytes(const Message& message) {
  constexpr std::size_t head = 64;
  constexpr std::size_t member = 110;
  return std::visit(
      [](const auto& known) -> std::size_t {
        if constexpr (requires { known.rumors; }) {
          return head + member * known.rumors.size();
        } else if constexpr (requires { known.members; }) {
          return head + member * known.members.size();
        } else {
          return head + sizeof known / 2;
        }
      },
      message);
}

std::uint64_t pair_key(PeerNumber from, PeerNumber to) {
  return static_cast<std::uint64_t>(from) << 32 | to;
}

// ---- Events ----

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
  std::uint32_t life = 0;
  std::uint64_t number = 0;  ///< Of the timer, or of the job.
  bool job = false;
};

struct LaneBroken {
  PeerNumber peer = 0;
  PeerNumber other = 0;
  std::uint32_t life = 0;
};

struct Met {
  PeerNumber peer = 0;
  PeerNumber other = 0;
  std::uint32_t life = 0;
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
  std::uint32_t life = 0;
  int tries = 0;
};

struct Stream {
  TransferId id;
  Payload payload;
  std::uint64_t offset = 0;
  std::uint32_t from_life = 0;
  std::uint32_t to_life = 0;
};

struct Lane {
  std::deque<Stream> streams;
  bool pumping = false;
};

/// What a host keeps for one peer.
struct Machine {
  Time armed = never;  ///< In true time; an earlier tick than needed does no harm.
  std::uint64_t timer = 0;
  std::optional<Job> job;
  Time job_began{};
  Time job_ends{};
  Duration job_left{};  ///< While stopped.
  Duration job_cost{};  ///< Without what a slow CPU adds.
  std::uint64_t jobs = 0;
  Rng pace{0};
  Time state_since{};
  std::optional<Time> joining_since;
  std::map<PeerNumber, std::uint32_t> met;  ///< With the life they had then.
  std::set<PeerNumber> lanes;               ///< Blocks went there or came from there.
  std::vector<PeerNumber> known;            ///< Members when it ended: its cache on disk.
  double clock_rate = 1;
  Time clock_true{};  ///< The clock showed `clock_local` at this moment and runs at its rate since.
  Time clock_local{};
};

struct WorldLink {
  Link link;
  std::uint64_t version = 0;  ///< Of the faults its quality was computed with.
};

}  // namespace

struct Simulator::World {
  using Backlog = std::variant<Arrival, BlockArrival, LaneBroken, Met>;
  using Event = std::variant<Arrival, BlockArrival, Due, LaneBroken, Met, Pump, Dial, Happening>;

  World(Simulator& simulator, Options given, MakeWorkload make_work)
      : outer(simulator),
        options(std::move(given)),
        make(std::move(make_work)),
        root(Rng(options.seed).fork("world")),
        link_draws(root.fork("links")),
        disk_draws(root.fork("disks")) {}

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
  std::map<std::size_t, FaultRule> active;  ///< Faults of links under way, by happening.
  std::size_t running = 0;                  ///< Peers that are up or stopped.
  std::size_t starts_left = 0;              ///< Happenings to come that start a peer.
  std::size_t wait_for = 1;

  // ---- Trace ----

  void mix(std::uint64_t value) { hash = hash_combine(hash, value); }

  void mix_event(std::size_t kind, PeerNumber peer, std::uint64_t other) {
    ++counts.events;
    mix(static_cast<std::uint64_t>(now.time_since_epoch().count()));
    mix(kind << 56 | static_cast<std::uint64_t>(peer) << 24);
    mix(other);
  }

  // ---- Clocks ----

  Time local(PeerNumber number) const {
    const Machine& machine = machines[number];
    const Duration passed = now - machine.clock_true;
    if (machine.clock_rate == 1) return machine.clock_local + passed;
    return machine.clock_local +
           Duration(std::llround(static_cast<double>(passed.count()) * machine.clock_rate));
  }

  Time to_true(PeerNumber number, Time time) const {
    if (time == never) return never;
    const Machine& machine = machines[number];
    const Duration ahead = time - machine.clock_local;
    if (machine.clock_rate == 1) return machine.clock_true + ahead;
    return machine.clock_true + Duration(std::llround(std::ceil(static_cast<double>(ahead.count()) /
                                                                machine.clock_rate)));
  }

  void set_clock(PeerNumber number, Duration jump, double rate) {
    Machine& machine = machines[number];
    machine.clock_local = local(number) + jump;
    machine.clock_true = now;
    machine.clock_rate = rate;
    machine.armed = never;
    if (peers[number].state == PeerState::up) {
      feed(number, {.kind = Input::Kind::tick, .peer = number},
           [&](Node& node, Time t, NodeEffects& out) { node.tick(t, out); });
    }
  }

  // ---- A node and what it wants done ----

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

  void carry_out(PeerNumber number, NodeEffects& effects) {
    for (Watcher* watcher : watchers) watcher->on_effects(outer, number, effects);
    for (Outgoing& outgoing : effects.messages) {
      send(number, number_of(outgoing.to), std::move(outgoing.message));
    }
    for (const Cancel& cancel : effects.cancels) {
      const auto lane = lanes.find(pair_key(number, number_of(cancel.to)));
      if (lane == lanes.end()) continue;
      std::erase_if(lane->second.streams,
                    [&](const Stream& stream) { return stream.id == cancel.id; });
    }
    for (Transfer& transfer : effects.transfers) transmit(number, std::move(transfer));
    for (Job& job : effects.jobs) begin_job(number, std::move(job));
  }

  void arm(PeerNumber number) {
    Machine& machine = machines[number];
    const Time at = std::max(now, to_true(number, peers[number].node->deadline()));
    // A timer that comes too early only ticks; a later one replaces it then.
    if (at == never || (machine.armed != never && machine.armed <= at && machine.armed >= now)) {
      return;
    }
    machine.armed = at;
    queue.push(at, Due{number, peers[number].life, ++machine.timer, false});
  }

  void begin_job(PeerNumber number, Job job) {
    VirtualPeer& peer = peers[number];
    Machine& machine = machines[number];
    check(!machine.job, "one job at a time");
    double spread = 1;
    if (options.scenario.step_jitter > 0 && job.steps > 0) {
      spread = std::max(0.1, 1 + options.scenario.step_jitter * machine.pace.normal());
    }
    const double work =
        seconds(options.scenario.step) * static_cast<double>(job.steps) * spread / peer.speed;
    machine.job_cost = std::max(small_job, from_seconds(work));
    Duration takes = from_seconds(seconds(machine.job_cost) / peer.cpu);
    if (job.save) takes += options.scenario.save + peer.disk.slower;
    machine.job = std::move(job);
    machine.job_began = now;
    machine.job_ends = now + takes;
    queue.push(machine.job_ends, Due{number, peer.life, ++machine.jobs, true});
  }

  void finish_job(PeerNumber number) {
    VirtualPeer& peer = peers[number];
    Machine& machine = machines[number];
    Job job = *std::move(machine.job);
    machine.job.reset();
    const bool save = job.save;
    const bool steps = job.steps > 0;
    for (Watcher* watcher : watchers) watcher->on_job(outer, number, job);
    JobDone done = peer.work->run(std::move(job));
    done.busy = now - machine.job_began;
    if (steps) {
      const double cost = seconds(machine.job_cost);
      peer.spent.training += cost;
      peer.spent.slowed += std::max(0.0, cost / peer.cpu - cost);
    }
    peer.steps_taken += done.steps_run;
    if (save) {
      done.saved = true;
      if (peer.disk.full) {
        done.save_problem = "no space left on the virtual disk";
      } else {
        peer.disk.commit(peer.work->image());
        for (Watcher* watcher : watchers) watcher->on_save(outer, number, done.step, true);
      }
    }
    for (Watcher* watcher : watchers) watcher->on_job_done(outer, number, done);
    mix_event(1, number, done.step);
    mix(std::bit_cast<std::uint64_t>(done.score.loss));
    feed(number, {.kind = Input::Kind::done, .peer = number, .done = &done},
         [&](Node& node, Time t, NodeEffects& out) { node.complete(t, std::move(done), out); });
  }

  // ---- Links ----

  static bool is_between(const FaultRule& rule, PeerNumber from, PeerNumber to) {
    return rule.peers.contains(from) && rule.to.contains(to);
  }

  /// Whether a fault of links concerns what passes from one to the other.
  static bool concerns(const FaultRule& rule, PeerNumber from, PeerNumber to) {
    if (rule.kind == FaultKind::partition) {
      return rule.peers.contains(from) != rule.peers.contains(to);
    }
    if (rule.kind == FaultKind::cut) return is_between(rule, from, to);
    return is_between(rule, from, to) || is_between(rule, to, from);
  }

  Link& link(PeerNumber from, PeerNumber to) {
    WorldLink& known = links[pair_key(from, to)];
    if (known.version == link_version) return known.link;
    known.version = link_version;
    Link& link = known.link;
    LinkQuality quality = options.scenario.link(from, to);
    link.cut = false;
    link.clogged_until = {};
    for (const auto& [number, rule] : active) {
      if (!concerns(rule, from, to)) continue;
      switch (rule.kind) {
        case FaultKind::partition:
        case FaultKind::cut:
          link.cut = true;
          break;
        case FaultKind::clog:
          link.clogged_until = std::max(link.clogged_until, Time(rule.at + rule.lasts));
          break;
        case FaultKind::slow_link:
          quality.latency += rule.quality.latency;
          if (rule.quality.bandwidth > 0 &&
              (quality.bandwidth == 0 || rule.quality.bandwidth < quality.bandwidth)) {
            quality.bandwidth = rule.quality.bandwidth;
          }
          break;
        case FaultKind::loss:
          quality.loss = std::max(quality.loss, rule.probability);
          break;
        case FaultKind::duplicate:
          quality.duplicate = std::max(quality.duplicate, rule.probability);
          break;
        case FaultKind::reorder:
          quality.reorder = std::max(quality.reorder, rule.probability);
          break;
        case FaultKind::corrupt:
          quality.corrupt = std::max(quality.corrupt, rule.probability);
          break;
        default:
          break;
      }
    }
    link.quality = quality;
    return link;
  }

  /// Counts what a link did to a message or block of `bytes`.
  Passage pass(PeerNumber from, PeerNumber to, std::size_t bytes) {
    const Passage passage = link(from, to).pass(now, bytes, link_draws);
    if (passage.copies == 0) ++counts.lost;
    if (passage.copies == 2) ++counts.duplicated;
    if (passage.damaged) ++counts.damaged;
    return passage;
  }

  bool is_reachable(PeerNumber number) const {
    const PeerState state = peers[number].state;
    return state == PeerState::up || state == PeerState::stopped;
  }

  void send(PeerNumber from, PeerNumber to, Message message) {
    if (to >= peers.size() || !is_reachable(to)) {
      ++counts.lost;
      return;
    }
    ++counts.messages;
    const std::size_t bytes = wire_bytes(message);
    counts.control_bytes += bytes;
    const Passage passage = pass(from, to, bytes);
    for (int copy = 0; copy < passage.copies; ++copy) {
      const Time at = passage.arrivals[static_cast<std::size_t>(copy)];
      meet(from, to, at);
      const bool last = copy + 1 == passage.copies;
      queue.push(at, Arrival{from, to, peers[to].life, last ? std::move(message) : message});
    }
  }

  /// The first word between two processes opens the link: each hears of the other.
  void meet(PeerNumber from, PeerNumber to, Time arrival) {
    std::uint32_t& life = machines[from].met[to];
    std::uint32_t& back = machines[to].met[from];
    if (back != peers[from].life + 1) {
      const bool again = std::exchange(back, peers[from].life + 1) != 0;
      queue.push(arrival, Met{to, from, peers[to].life, peers[from].life, again});
    }
    if (life != peers[to].life + 1 && !link(to, from).cut) {
      const bool again = std::exchange(life, peers[to].life + 1) != 0;
      queue.push(arrival + link(to, from).quality.latency,
                 Met{from, to, peers[from].life, peers[to].life, again});
    }
  }

  void transmit(PeerNumber from, Transfer transfer) {
    const PeerNumber to = number_of(transfer.to);
    if (to >= peers.size() || !is_reachable(to)) {
      queue.push(now + small_job, LaneBroken{from, to, peers[from].life});
      return;
    }
    machines[from].lanes.insert(to);
    machines[to].lanes.insert(from);
    Lane& lane = lanes[pair_key(from, to)];
    std::erase_if(lane.streams, [&](const Stream& stream) { return stream.id == transfer.id; });
    lane.streams.push_back({transfer.id, std::move(transfer.payload), transfer.offset,
                            peers[from].life, peers[to].life});
    if (lane.pumping) return;
    lane.pumping = true;
    pump(from, to);
  }

  void pump(PeerNumber from, PeerNumber to) {
    Lane& lane = lanes[pair_key(from, to)];
    while (!lane.streams.empty()) {
      Stream& stream = lane.streams.front();
      const bool over = stream.offset >= stream.payload.bytes.size();
      if (over || stream.from_life != peers[from].life || stream.to_life != peers[to].life) {
        lane.streams.pop_front();
        continue;
      }
      const std::size_t bytes =
          std::min<std::size_t>(block_bytes_max, stream.payload.bytes.size() - stream.offset);
      counts.lane_bytes += bytes;
      const Passage passage = pass(from, to, bytes);
      const Payload block{stream.payload.owner, stream.payload.bytes.subspan(stream.offset, bytes)};
      for (int copy = 0; copy < passage.copies; ++copy) {
        queue.push(passage.arrivals[static_cast<std::size_t>(copy)],
                   BlockArrival{from, to, stream.to_life, stream.id, stream.offset, block});
      }
      if (passage.damaged) {
        lane.pumping = false;
        break_lane(from, to);
        return;
      }
      stream.offset += bytes;
      if (passage.sent > now) {
        queue.push(passage.sent, Pump{from, to});
        return;
      }
    }
    lane.pumping = false;
  }

  /// The connection between two is gone: what was on its way is lost, and both hear of it.
  void break_lane(PeerNumber a, PeerNumber b) {
    for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
      const auto lane = lanes.find(pair_key(from, to));
      if (lane != lanes.end()) lane->second.streams.clear();
      machines[from].lanes.erase(to);
      if (!is_reachable(from) || link(to, from).cut) continue;
      queue.push(now + link(to, from).quality.latency, LaneBroken{from, to, peers[from].life});
    }
  }

  // ---- Events ----

  bool is_for(PeerNumber number, std::uint32_t life) const { return peers[number].life == life; }

  /// Keeps for later what comes to a stopped peer; false when it can be handled now.
  template <class Kind>
  bool postponed(PeerNumber number, Kind& event) {
    if (peers[number].state != PeerState::stopped) return false;
    if (backlogs[number].size() < backlog_max) {
      backlogs[number].push_back(std::move(event));
    } else {
      ++counts.lost;
    }
    return true;
  }

  void handle(Arrival& event) {
    if (!is_for(event.to, event.to_life)) {
      ++counts.lost;
      return;
    }
    if (postponed(event.to, event)) return;
    mix_event(2, event.to, event.message.index() << 32 | event.from);
    const Envelope envelope{id_of(event.from), std::move(event.message)};
    feed(event.to,
         {.kind = Input::Kind::message,
          .peer = event.to,
          .from = envelope.from,
          .message = &envelope.message},
         [&](Node& node, Time t, NodeEffects& out) { node.receive(t, envelope, out); });
  }

  void handle(BlockArrival& event) {
    if (!is_for(event.to, event.to_life)) return;
    if (postponed(event.to, event)) return;
    mix_event(3, event.to, event.offset << 32 | event.from);
    const Block block{event.id, event.offset, event.payload.bytes};
    feed(event.to,
         {.kind = Input::Kind::block, .peer = event.to, .from = id_of(event.from), .block = &block},
         [&](Node& node, Time t, NodeEffects& out) {
           node.receive_block(t, id_of(event.from), block, out);
         });
  }

  void handle(Due& event) {
    Machine& machine = machines[event.peer];
    if (!is_for(event.peer, event.life) || peers[event.peer].state != PeerState::up) return;
    if (event.job) {
      if (event.number == machine.jobs && machine.job) finish_job(event.peer);
      return;
    }
    if (event.number != machine.timer) return;
    machine.armed = never;
    mix_event(4, event.peer, 0);
    feed(event.peer, {.kind = Input::Kind::tick, .peer = event.peer},
         [&](Node& node, Time t, NodeEffects& out) { node.tick(t, out); });
  }

  void handle(LaneBroken& event) {
    if (!is_for(event.peer, event.life) || !is_reachable(event.peer)) return;
    if (postponed(event.peer, event)) return;
    mix_event(5, event.peer, event.other);
    feed(event.peer,
         {.kind = Input::Kind::lane_lost, .peer = event.peer, .from = id_of(event.other)},
         [&](Node& node, Time t, NodeEffects& out) { node.lane_lost(t, id_of(event.other), out); });
  }

  void handle(Met& event) {
    if (!is_for(event.peer, event.life) || !is_for(event.other, event.other_life)) return;
    if (postponed(event.peer, event)) return;
    mix_event(6, event.peer, event.other);
    feed(event.peer, {.kind = Input::Kind::contact, .peer = event.peer, .from = id_of(event.other)},
         [&](Node& node, Time t, NodeEffects& out) {
           if (event.again) node.restarted(t, id_of(event.other), out);
           node.contact(t, id_of(event.other), out);
         });
  }

  void handle(Pump& event) { pump(event.from, event.to); }

  /// A process that was told to join keeps dialling until somebody answers.
  void handle(Dial& event) {
    if (!is_for(event.from, event.life) || machines[event.from].met.contains(event.to)) return;
    if (peers[event.from].state == PeerState::up && peers[event.to].state == PeerState::up) {
      const Passage there = pass(event.from, event.to, 200);
      if (there.copies > 0) {
        meet(event.from, event.to, there.arrivals[0]);
        return;
      }
    }
    if (++event.tries < dials_max) queue.push(now + dial_again_after, event);
  }

  static bool starts_peers(const Happening& happening) {
    const FaultKind kind = happening.rule.kind;
    return kind == FaultKind::restart || kind == FaultKind::join ||
           ((kind == FaultKind::kill || kind == FaultKind::leave) && !happening.begins);
  }

  void handle(Happening& event) {
    if (starts_peers(event)) --starts_left;
    apply(event);
  }

  // ---- Starting and ending ----

  void set_state(PeerNumber number, PeerState state) {
    account(number);
    if (is_reachable(number)) --running;
    peers[number].state = state;
    if (is_reachable(number)) ++running;
    for (Watcher* watcher : watchers) watcher->on_state(outer, number, state);
  }

  /// Books the time since the last change of state.
  void account(PeerNumber number) {
    VirtualPeer& peer = peers[number];
    const double passed = seconds(now - machines[number].state_since);
    if (peer.state == PeerState::stopped) peer.spent.stopped += passed;
    if (peer.state == PeerState::down) peer.spent.down += passed;
    machines[number].state_since = now;
  }

  void account_joining(PeerNumber number) {
    Machine& machine = machines[number];
    const bool joining = peers[number].node->gossip().phase() == Phase::joining;
    if (machine.joining_since && !joining) {
      peers[number].spent.joining += seconds(now - *machine.joining_since);
      machine.joining_since.reset();
    } else if (!machine.joining_since && joining) {
      machine.joining_since = now;
    }
  }

  void start(PeerNumber number) {
    VirtualPeer& peer = peers[number];
    Machine& machine = machines[number];
    if (is_reachable(number)) return;
    const bool first = peer.life == 0;
    set_state(number, PeerState::up);
    ++peer.life;
    const std::uint64_t session =
        root.fork("session").fork(number).fork(static_cast<std::uint64_t>(peer.life)).next();
    peer.work = make(number);
    std::shared_ptr<const Image> image;
    if (!first) {
      image = peer.disk.newest();
      if (image) peer.work->restore(*image);
    }
    for (Watcher* watcher : watchers) watcher->on_restore(outer, number, image.get());
    Node::Options node = options.node;
    node.gossip.wait_for_peers = first ? wait_for : 1;
    if (!options.steps.empty()) node.gossip.steps = options.steps[number];
    peer.node = std::make_unique<Node>(Member{.id = id_of(number),
                                              .name = "peer-" + std::to_string(number),
                                              .address = "virtual:" + std::to_string(number),
                                              .layout_hash = node.gossip.exchange.layout_hash},
                                       allow_lists[number], session, node, Rng(session));
    machine.armed = never;
    machine.met.clear();
    machine.pace = root.fork("pace").fork(number).fork(static_cast<std::uint64_t>(peer.life));
    // Who comes back joins whom it knew, others one that is named to them.
    std::vector<PeerNumber> join = machine.known;
    if (join.empty()) join = first_contact(number);
    for (const PeerNumber other : join) queue.push(now, Dial{number, other, peer.life, 0});
    mix_event(7, number, peer.life);
    feed(number, {.kind = Input::Kind::start, .peer = number},
         [&](Node& n, Time t, NodeEffects& out) {
           n.start(t, peer.work->step(), !join.empty(), out);
         });
  }

  /// Whom a newcomer is told to join: the first that is running, else (it may come yet) the first
  /// of all. At the start peer 0 is told nobody, so that the others find somebody who waits for
  /// them.
  std::vector<PeerNumber> first_contact(PeerNumber number) const {
    std::vector<PeerNumber> others;
    for (const PeerId id : allow_lists[number]) {
      if (number_of(id) != number) others.push_back(number_of(id));
    }
    if (others.empty() || (now == Time{} && number == 0)) return {};
    const auto running_one = std::ranges::find_if(
        others, [this](PeerNumber other) { return now > Time{} && is_reachable(other); });
    return {running_one == others.end() ? others.front() : *running_one};
  }

  void end(PeerNumber number, PeerState state) {
    VirtualPeer& peer = peers[number];
    Machine& machine = machines[number];
    if (!is_reachable(number)) return;
    machine.known.clear();
    for (const Member& member : peer.node->membership().members()) {
      const bool gone = member.state == MemberState::dead || member.state == MemberState::left;
      if (member.id != id_of(number) && !gone) machine.known.push_back(number_of(member.id));
    }
    if (machine.job && machine.job->save && !peer.disk.full && state == PeerState::down &&
        now + options.scenario.save + peer.disk.slower >= machine.job_ends) {
      // It died while it wrote: the steps are taken, the file may be torn.
      peer.work->run(*std::move(machine.job));
      peer.disk.crash(peer.work->image(), disk_draws);
      for (Watcher* watcher : watchers) {
        watcher->on_save(outer, number, peer.work->step(), false);
      }
    }
    machine.job.reset();
    machine.joining_since.reset();
    backlogs[number].clear();
    set_state(number, state);
    ++peer.life;
    peer.node.reset();
    // The system closes a dead process's connections; a peer that ended has sent all it had.
    const std::set<PeerNumber> open = machine.lanes;
    for (const PeerNumber other : open) break_lane(number, other);
    if (state == PeerState::down) peer.work.reset();
  }

  void stop(PeerNumber number) {
    Machine& machine = machines[number];
    if (peers[number].state != PeerState::up) return;
    if (machine.job) machine.job_left = std::max(Duration{}, machine.job_ends - now);
    set_state(number, PeerState::stopped);
  }

  void wake(PeerNumber number) {
    Machine& machine = machines[number];
    if (peers[number].state != PeerState::stopped) return;
    set_state(number, PeerState::up);
    if (machine.job) {
      machine.job_ends = now + machine.job_left;
      queue.push(machine.job_ends, Due{number, peers[number].life, ++machine.jobs, true});
    }
    machine.armed = never;
    for (Backlog& event : std::exchange(backlogs[number], {})) {
      std::visit([&](auto& known) { queue.push(now, std::move(known)); }, event);
    }
    arm(number);
  }

  void leave(PeerNumber number) {
    if (peers[number].state == PeerState::stopped) wake(number);
    if (peers[number].state != PeerState::up) return;
    feed(number, {.kind = Input::Kind::leave, .peer = number},
         [&](Node& node, Time t, NodeEffects& out) { node.leave(t, out); });
  }

  // ---- Faults ----

  void apply(const Happening& happening) {
    ++counts.happenings;
    mix_event(8, 0, happening.fault << 1 | (happening.begins ? 1U : 0U));
    for (Watcher* watcher : watchers) watcher->on_happening(outer, happening);
    FaultRule rule = happening.rule;
    rule.at = now.time_since_epoch();
    const auto each = [&](auto&& act) {
      for (PeerNumber number = 0; number < peers.size(); ++number) {
        if (rule.peers.contains(number)) act(number);
      }
    };
    const bool begins = happening.begins;
    switch (rule.kind) {
      case FaultKind::kill:
        each([&](PeerNumber n) { begins ? end(n, PeerState::down) : restart(n); });
        break;
      case FaultKind::restart:
        each([&](PeerNumber n) {
          end(n, PeerState::down);
          restart(n);
        });
        break;
      case FaultKind::stop:
        each([&](PeerNumber n) { begins ? stop(n) : wake(n); });
        break;
      case FaultKind::resume:
        each([&](PeerNumber n) { wake(n); });
        break;
      case FaultKind::leave:
        each([&](PeerNumber n) {
          if (begins) {
            leave(n);
          } else if (peers[n].state == PeerState::ended) {
            start(n);
          }
        });
        break;
      case FaultKind::join:
        each([&](PeerNumber n) {
          if (peers[n].state == PeerState::absent) start(n);
        });
        break;
      case FaultKind::slow_cpu:
        each([&](PeerNumber n) { peers[n].cpu = begins ? rule.factor : 1; });
        break;
      case FaultKind::clock_jump:
        if (begins) each([&](PeerNumber n) { set_clock(n, rule.jump, machines[n].clock_rate); });
        break;
      case FaultKind::clock_rate:
        each([&](PeerNumber n) { set_clock(n, {}, begins ? rule.factor : 1); });
        break;
      case FaultKind::disk_full:
        each([&](PeerNumber n) { peers[n].disk.full = begins; });
        break;
      case FaultKind::slow_disk:
        each([&](PeerNumber n) { peers[n].disk.slower = begins ? rule.jump : Duration{}; });
        break;
      case FaultKind::heal:
        active.clear();
        ++link_version;
        break;
      default:
        if (begins) {
          active[happening.fault] = rule;
        } else {
          active.erase(happening.fault);
        }
        ++link_version;
        break;
    }
  }

  void restart(PeerNumber number) {
    if (peers[number].state == PeerState::down) start(number);
  }

  void prepare() {
    const std::size_t n = options.peers;
    peers.resize(n);
    machines.resize(n);
    backlogs.resize(n);
    draw_allow_lists();
    std::size_t late = 0;
    const std::vector<Happening> all =
        timeline(options.scenario, n, options.scenario.until, root.fork("faults"));
    std::vector<bool> absent(n, false);
    for (const Happening& happening : all) {
      queue.push(happening.at, happening);
      if (starts_peers(happening)) ++starts_left;
      if (happening.rule.kind != FaultKind::join) continue;
      for (PeerNumber number = 0; number < n; ++number) {
        if (happening.rule.peers.contains(number)) absent[number] = true;
      }
    }
    for (PeerNumber number = 0; number < n; ++number) {
      peers[number].speed = options.scenario.speed_of(number);
      late += absent[number] ? 1 : 0;
    }
    // Who may meet only some cannot wait for all.
    const bool sparse = options.scenario.neighbours > 0 && options.scenario.neighbours < n;
    const std::size_t everybody = std::max<std::size_t>(1, n - late);
    wait_for = options.wait_for > 0 ? options.wait_for
                                    : std::min<std::size_t>(everybody, sparse ? 2 : everybody);
    for (PeerNumber number = 0; number < n; ++number) {
      if (!absent[number]) start(number);
    }
  }

  /// Everybody, or for each a ring of both neighbours (so that all are connected) and random
  /// others.
  void draw_allow_lists() {
    const std::size_t n = options.peers;
    const std::size_t wanted = options.scenario.neighbours;
    allow_lists.resize(n);
    if (wanted == 0 || wanted >= n) {
      std::vector<PeerId> everybody;
      for (PeerNumber number = 0; number < n; ++number) everybody.push_back(id_of(number));
      for (auto& list : allow_lists) list = everybody;
      return;
    }
    std::vector<std::set<PeerId>> met(n);
    const auto join = [&](PeerNumber a, PeerNumber b) {
      met[a].insert(id_of(b));
      met[b].insert(id_of(a));
    };
    Rng draws = root.fork("neighbours");
    for (PeerNumber number = 0; number < n; ++number) {
      join(number, static_cast<PeerNumber>((number + 1) % n));
    }
    for (PeerNumber number = 0; number < n; ++number) {
      for (std::size_t tries = 0; met[number].size() < wanted && tries < 4 * wanted; ++tries) {
        const auto other = static_cast<PeerNumber>(draws.below(n));
        if (other != number && met[other].size() < wanted) join(number, other);
      }
      allow_lists[number].assign(met[number].begin(), met[number].end());
    }
    for (PeerNumber number = 0; number < n; ++number) {
      allow_lists[number].assign(met[number].begin(), met[number].end());
    }
  }

  void heal() {
    // What was still to come stays away: only what peers do goes on.
    EventQueue<Event> kept;
    while (!queue.empty()) {
      const Time at = queue.next();
      Event event = queue.pop();
      if (!std::holds_alternative<Happening>(event)) kept.push(at, std::move(event));
    }
    queue = std::move(kept);
    starts_left = 0;
    active.clear();
    ++link_version;
    for (PeerNumber number = 0; number < peers.size(); ++number) {
      peers[number].cpu = 1;
      peers[number].disk.full = false;
      peers[number].disk.slower = {};
      if (machines[number].clock_rate != 1) set_clock(number, {}, 1);
      wake(number);
      restart(number);
      if (peers[number].state == PeerState::absent) start(number);
    }
  }
};

Simulator::Simulator(Options options, MakeWorkload make)
    : world_(std::make_unique<World>(*this, std::move(options), std::move(make))) {}

Simulator::~Simulator() = default;

void Simulator::watch(Watcher& watcher) { world_->watchers.push_back(&watcher); }

bool Simulator::step(Time end) {
  World& world = *world_;
  if (world.peers.empty()) world.prepare();
  if (world.queue.empty() || world.queue.next() > end) return false;
  world.now = world.queue.next();
  World::Event event = world.queue.pop();
  std::visit([&](auto& known) { world.handle(known); }, event);
  return true;
}

void Simulator::run(Time end) {
  while (step(end)) {
    if (all_ended()) break;
  }
  if (!all_ended() && end != never) world_->now = std::max(world_->now, end);
  for (PeerNumber number = 0; number < size(); ++number) world_->account(number);
}

bool Simulator::all_ended() const {
  if (world_->peers.empty() || world_->running > 0) return false;
  const bool some_may_start = std::ranges::any_of(world_->peers, [](const VirtualPeer& peer) {
    return peer.state == PeerState::down || peer.state == PeerState::absent;
  });
  return world_->starts_left == 0 || !some_may_start;
}

Time Simulator::now() const { return world_->now; }
Time Simulator::local(PeerNumber number) const { return world_->local(number); }
std::size_t Simulator::size() const { return world_->options.peers; }
const VirtualPeer& Simulator::peer(PeerNumber number) const { return world_->peers[number]; }
const WorldCounts& Simulator::counts() const { return world_->counts; }
const Simulator::Options& Simulator::options() const { return world_->options; }
std::uint64_t Simulator::trace_hash() const { return world_->hash; }
void Simulator::heal() { world_->heal(); }

void Simulator::send_from_outside(PeerId from, PeerNumber to, Message message) {
  World& world = *world_;
  if (!world.peers[to].node || world.peers[to].state != PeerState::up) return;
  const Envelope envelope{from, std::move(message)};
  world.feed(to,
             {.kind = Input::Kind::message, .peer = to, .from = from, .message = &envelope.message},
             [&](Node& node, Time t, NodeEffects& out) { node.receive(t, envelope, out); });
}

bool Simulator::is_cut(PeerNumber from, PeerNumber to) const { return world_->link(from, to).cut; }

}  // namespace gv
