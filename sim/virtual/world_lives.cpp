// Starts, stops, ends and restarts virtual processes.
#include <algorithm>
#include <chrono>
#include <limits>
#include <string>

#include "sim/virtual/neighbours.hpp"
#include "sim/virtual/world.hpp"

namespace gv {
namespace {

/// The address that a virtual peer states. If there are several hosts, it also names the peer's
/// host.
std::string address_of(const Scenario& scenario, PeerNumber number) {
  const std::string host =
      scenario.hosts > 1 ? std::to_string(number % scenario.hosts) + ":" : std::string();
  return "virtual:" + host + std::to_string(number);
}

}  // namespace

void Simulator::World::set_state(PeerNumber number, PeerState state) {
  account(number);
  if (is_reachable(number)) --running;
  peers[number].state = state;
  peers[number].since = now;
  if (is_reachable(number)) ++running;
  for (Watcher* watcher : watchers) watcher->on_state(outer, number, state);
}

/// Adds the time since the last change of state to the peer's totals.
void Simulator::World::account(PeerNumber number) {
  VirtualPeer& peer = peers[number];
  const double passed = seconds(now - machines[number].booked_until);
  if (peer.state == PeerState::stopped) peer.spent.stopped += passed;
  if (peer.state == PeerState::down) peer.spent.down += passed;
  machines[number].booked_until = now;
}

void Simulator::World::account_joining(PeerNumber number) {
  Machine& machine = machines[number];
  const bool joining = peers[number].node->mode().phase() == Phase::joining;
  if (machine.joining_since && !joining) {
    peers[number].spent.joining += seconds(now - *machine.joining_since);
    machine.joining_since.reset();
  } else if (!machine.joining_since && joining) {
    machine.joining_since = now;
  }
}

void Simulator::World::start(PeerNumber number) {
  VirtualPeer& peer = peers[number];
  Machine& machine = machines[number];
  if (is_reachable(number)) return;
  if (!is_member(number)) return join_by_ticket(number);
  const bool first = peer.incarnation == 0;
  machine.taken_by.reset();
  machine.told_to_leave = false;
  set_state(number, PeerState::up);
  ++peer.incarnation;
  const std::uint64_t session =
      root.fork("session").fork(number).fork(static_cast<std::uint64_t>(peer.incarnation)).next();
  peer.work = make(number);
  std::shared_ptr<const Image> image;
  if (!first) {
    image = peer.disk.newest();
    if (image) restore(*peer.work, *image);
  }
  for (Watcher* watcher : watchers) watcher->on_restore(outer, number, image.get());
  NodeOptions node = options.node;
  node.course.wait_for_peers = first ? wait_for : 1;
  if (!options.steps.empty()) node.course.steps = options.steps[number];
  node.course.work.resumed = peer.work->swarm_note();
  if (!options.data.empty()) node.course.work.data = options.data[number];
  const bool tickets = options.scenario.tickets;
  // Like a host's, the first incarnation of a later process is higher than those of earlier ones.
  const auto since_0 = std::max(local(number), Time{}).time_since_epoch();
  const auto life_ms = std::chrono::duration_cast<std::chrono::milliseconds>(since_0).count();
  peer.node =
      std::make_unique<Node>(Member{.id = id_of(number),
                                    .name = "peer-" + std::to_string(number),
                                    .address = address_of(options.scenario, number),
                                    .incarnation = first ? 0 : static_cast<std::uint64_t>(life_ms),
                                    .layout_hash = node.course.layout_hash},
                             tickets ? std::vector<PeerId>() : allow_lists[number], session, node,
                             signers[number], Rng(session));
  machine.armed = never;
  machine.met.clear();
  machine.heard.clear();
  machine.pace = root.fork("pace").fork(number).fork(static_cast<std::uint64_t>(peer.incarnation));
  // A restarted peer joins the peers that it knew. Add a first contact if there are no such peers
  // or, in worlds with tickets, if all of them have ended or been revoked.
  std::set<PeerNumber> join = machine.known;
  const auto is_of_no_use = [&](PeerNumber other) { return tickets && has_ended(other); };
  if (std::ranges::all_of(join, is_of_no_use)) {
    if (const auto contact = first_contact(number)) join.insert(*contact);
  }
  for (const PeerNumber other : join) queue.push(now, Dial{number, other, peer.incarnation, 0});
  mix_event(7, number, peer.incarnation);
  feed(number, {.kind = Input::Kind::start, .peer = number},
       [&](Node& n, Time t, NodeEffects& out) {
         if (tickets) n.certify(t, trust_of(number), out);
         n.start(t, peer.work->step(), !join.empty(), out);
       });
}

/// Returns the peer that a newcomer joins: the first that runs and has not been revoked or, if
/// there is none, the first in its list, which may still start. At the start, peer 0 joins no peer
/// and waits for the others.
std::optional<PeerNumber> Simulator::World::first_contact(PeerNumber number) const {
  std::vector<PeerNumber> others;
  for (const PeerId id : allow_lists[number]) {
    if (number_of(id) != number) others.push_back(number_of(id));
  }
  if (others.empty() || (now == Time{} && number == 0)) return std::nullopt;
  const auto running_one = std::ranges::find_if(others, [this](PeerNumber other) {
    return now > Time{} && is_reachable(other) && !has_ended(other);
  });
  return running_one == others.end() ? others.front() : *running_one;
}

void Simulator::World::end(PeerNumber number, PeerState state) {
  VirtualPeer& peer = peers[number];
  Machine& machine = machines[number];
  if (!is_reachable(number)) return;
  for (const Member& member : peer.node->membership().members()) {
    if (member.state == MemberState::left) {
      machine.known.erase(number_of(member.id));
    } else if (member.id != id_of(number)) {
      machine.known.insert(number_of(member.id));
    }
  }
  if (machine.job && peer.state == PeerState::up) book_job(number);
  if (const Trust* trust = peer.node->trust()) {
    machine.certificates = trust->certificates();
    machine.revocations = trust->revocations();
  }
  const bool writes = keeps_images() && machine.job && machine.job->saves() && !peer.disk.full;
  if (writes && state == PeerState::down && machine.job_work == Duration{}) {
    // The peer died while it wrote the file: the steps were taken, but the file may be torn.
    peer.work->run(*std::move(machine.job));
    peer.disk.crash(image_of(*peer.work), disk_draws);
    for (Watcher* watcher : watchers) {
      watcher->on_save(outer, number, peer.work->step(), false);
    }
  }
  machine.job.reset();
  machine.next_job.reset();
  machine.opened.reset();
  if (machine.joining_since) {
    peer.spent.joining += seconds(now - *std::exchange(machine.joining_since, std::nullopt));
  }
  std::erase_if(machine.faults, [](const auto& fault) {  // A stop ends with its process.
    return fault.second.kind == FaultKind::stop;
  });
  backlogs[number].clear();
  set_state(number, state);
  ++peer.incarnation;
  peer.node.reset();
  // The system closes a dead process's connections.
  const std::set<PeerNumber> open = machine.lanes;
  for (const PeerNumber other : open) break_lane(number, other);
  if (state == PeerState::down) peer.work.reset();
}

void Simulator::World::stop(PeerNumber number) {
  Machine& machine = machines[number];
  if (peers[number].state != PeerState::up) return;
  if (machine.job) book_job(number);
  set_state(number, PeerState::stopped);
}

void Simulator::World::wake(PeerNumber number) {
  Machine& machine = machines[number];
  if (peers[number].state != PeerState::stopped) return;
  set_state(number, PeerState::up);
  if (machine.job) time_job(number);
  machine.armed = never;
  for (Backlog& event : std::exchange(backlogs[number], {})) {
    std::visit([&](auto& known) { queue.push(now, std::move(known)); }, event);
  }
  arm(number);
  if (machine.told_to_leave) leave(number);
}

/// Acts like SIGTERM to a process. A stopped process notices the signal when it continues.
void Simulator::World::leave(PeerNumber number) {
  machines[number].told_to_leave = peers[number].state == PeerState::stopped;
  if (peers[number].state != PeerState::up) return;
  feed(number, {.kind = Input::Kind::leave, .peer = number},
       [&](Node& node, Time t, NodeEffects& out) { node.leave(t, out); });
}

/// Gives the process the command to switch to these settings.
void Simulator::World::switch_to(PeerNumber number, const std::string& settings) {
  feed(number, {.kind = Input::Kind::command, .peer = number},
       [&](Node& node, Time t, NodeEffects& out) {
         for (const Problem& problem : node.switch_to(t, settings, out)) {
           out.tell(SwitchRefused{.why = to_string(problem)});
         }
       });
}

bool Simulator::World::starts_peers(const FaultEvent& fault_event) {
  const FaultKind kind = fault_event.rule.kind;
  return kind == FaultKind::restart || kind == FaultKind::join ||
         ((kind == FaultKind::kill || kind == FaultKind::leave) && !fault_event.begins);
}

/// Limit on a saboteur's finite values in modes that do not bound received values. Sums of larger
/// values could overflow, and no peer could tell which peer is to blame.
constexpr float loudest_unguarded = 1e30F;

void Simulator::World::prepare_saboteurs() {
  const bool guarded =
      (options.node.mode == ModeKind::gossip || options.node.mode == ModeKind::allreduce) &&
      !has_switches(options.scenario);
  const float loudest = guarded ? std::numeric_limits<float>::max() : loudest_unguarded;
  for (PeerNumber number = 0; number < options.peers; ++number) {
    if (!options.scenario.saboteurs.contains(number)) continue;
    Saboteur& saboteur = saboteurs
                             .try_emplace(number, id_of(number), allow_lists[number], loudest,
                                          root.fork("saboteur").fork(number))
                             .first->second;
    queue.push(now + saboteur.pause(), Mischief{number});
  }
}

void Simulator::World::revoke(PeerNumber number) {
  is_reachable(number) ? end(number, PeerState::ended) : set_state(number, PeerState::ended);
  for (PeerNumber other = 0; options.scenario.tickets && other < peers.size(); ++other) {
    if (revoke_by(other, id_of(number))) break;
  }
  if (options.scenario.tickets) return;
  for (PeerNumber other = 0; other < peers.size(); ++other) {
    std::vector<PeerId>& allowed = allow_lists[other];
    if (std::erase(allowed, id_of(number)) == 0 || peers[other].state != PeerState::up) continue;
    feed(other, {.kind = Input::Kind::command, .peer = other},
         [&](Node& node, Time t, NodeEffects& out) { node.authorize(t, allowed, out); });
    // If the peer knows no other peer now, let it dial one.
    if (peers[other].node->membership().view().size() > 1) continue;
    if (const auto contact = first_contact(other)) {
      queue.push(now, Dial{other, *contact, peers[other].incarnation, 0});
    }
  }
}

void Simulator::World::prepare() {
  const std::size_t n = options.peers;
  peers.resize(n);
  machines.resize(n);
  backlogs.resize(n);
  allow_lists = draw_neighbours(n, options.scenario.neighbours, root.fork("neighbours"));
  prepare_saboteurs();
  std::size_t late = 0;
  const std::vector<FaultEvent> all =
      timeline(options.scenario, n, options.scenario.until, root.fork("faults"));
  std::vector<bool> absent(n, false);
  for (const FaultEvent& fault_event : all) {
    queue.push(fault_event.at, fault_event);
    if (starts_peers(fault_event)) ++starts_left;
    if (fault_event.rule.kind != FaultKind::join) continue;
    for (PeerNumber number = 0; number < n; ++number) {
      if (fault_event.rule.peers.contains(number)) absent[number] = true;
    }
  }
  for (PeerNumber number = 0; number < n; ++number) {
    peers[number].speed = options.scenario.speed_of(number);
    late += absent[number] ? 1 : 0;
  }
  // Peers that may meet only some peers cannot wait for all.
  const bool sparse = options.scenario.neighbours > 0 && options.scenario.neighbours < n;
  const std::size_t everybody = std::max<std::size_t>(1, n - late);
  wait_for = options.wait_for > 0 ? options.wait_for
                                  : std::min<std::size_t>(everybody, sparse ? 2 : everybody);
  for (PeerNumber number = 0; number < n; ++number) {
    if (!absent[number]) start(number);
  }
}

}  // namespace gv
