// The virtual world's event loop: feeds due events to nodes, and carries out their effects.
#include "sim/virtual/simulator.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <span>
#include <utility>

#include "base/check.hpp"
#include "base/overloaded.hpp"
#include "sim/virtual/world.hpp"

namespace gv {
namespace {

/// Duration of a job without steps, such as one that adds forces or copies a snapshot.
constexpr Duration small_job = std::chrono::microseconds(50);
/// A joining peer dials again after this interval, and at most this number of times.
constexpr Duration dial_again_after = std::chrono::seconds(1);
constexpr int dials_max = 600;

/// True if the job takes steps or computes a gradient.
bool trains(const Job& job) {
  return first_of<task::TakeSteps>(job.tasks) != nullptr ||
         first_of<task::ComputeGradient>(job.tasks) != nullptr;
}

/// The fraction of a pass's work that one part of it takes. A member of a group works only on its
/// own slices, and all parts take equal shares of that work.
double part_of_pass(const PipelineOptions& pipeline, const task::StagePass& pass) {
  if (!pass.group) return 1;
  const StageSize& stage = pipeline.stages[pass.what.stage];
  const bool is_forward = pass.what.action == PipelineAction::forward;
  const bool is_test = is_forward && pass.what.tests;
  const auto sums = pass.what.action == PipelineAction::backward_weight ? 0
                    : is_test    ? sums_in_tests(stage.forward_sums).size()
                    : is_forward ? stage.forward_sums.size()
                                 : stage.backward_sums.size();
  const double slices = static_cast<double>(pass.group->slices.size());
  return slices / static_cast<double>(stage.slices.size() * (sums + 1));
}

Simulator::Options with_drawn_rules(Simulator::Options options) {
  draw_rules(options.scenario, options.peers, options.seed);
  return options;
}

}  // namespace

/// Returns the duration of a job, in steps.
double Simulator::World::steps_in(const Job& job) const {
  double steps = 0;
  const Overloaded add{
      [&](const task::TakeSteps& task) {
        const std::uint64_t batches = task.count * batch_growth(job);
        steps += task.rests ? 0 : static_cast<double>(batches);
      },
      [&](const task::ComputeGradient& task) {
        if (task.of_model) return;
        steps += static_cast<double>(task.all_samples()) / options.node.allreduce.batch;
      },
      [&](const task::StagePass& task) {
        // Only the forward passes of a test take time.
        if (task.what.tests && task.what.action != PipelineAction::forward) return;
        const auto& planned = options.node.pipeline.stage_seconds;
        const auto& real = options.stage_seconds.empty() ? planned : options.stage_seconds;
        steps += part_of_stage(task.what.action) * real[task.what.stage] *
                 part_of_pass(options.node.pipeline, task);
      },
      [](const auto&) {}};
  for (const Job::Task& task : job.tasks) std::visit(add, task);
  return steps;
}

Simulator::World::World(Simulator& simulator, Options given, MakeWorkload make_work)
    : outer(simulator),
      options(with_drawn_rules(std::move(given))),
      make(std::move(make_work)),
      root(Rng(options.seed).fork("world")),
      link_draws(root.fork("links")),
      disk_draws(root.fork("disks")),
      signing_secret(root.fork("signatures").next()),
      link_faults(options.scenario),
      hostile(hostile_peers(options.scenario, options.peers, options.seed),
              options.node.mixing.rule, options.node.course.run_seed),
      ticket_draws(root.fork("tickets")),
      swarm_signer(swarm_id, signing_secret) {
  for (PeerNumber number = 0; number < options.peers; ++number) {
    signers.emplace_back(id_of(number), signing_secret);
  }
}

void Simulator::World::mix_event(std::size_t kind, PeerNumber peer, std::uint64_t other) {
  ++counts.events;
  mix(static_cast<std::uint64_t>(now.time_since_epoch().count()));
  mix(kind << 56 | static_cast<std::uint64_t>(peer) << 24);
  mix(other);
}

Time Simulator::World::local(PeerNumber number) const {
  const Machine& machine = machines[number];
  const Duration passed = now - machine.clock_true;
  if (machine.clock_rate == 1) return machine.clock_local + passed;
  return machine.clock_local +
         Duration(std::llround(static_cast<double>(passed.count()) * machine.clock_rate));
}

Time Simulator::World::to_true(PeerNumber number, Time time) const {
  if (time == never) return never;
  const Machine& machine = machines[number];
  const Duration ahead = time - machine.clock_local;
  if (machine.clock_rate == 1) return machine.clock_true + ahead;
  return machine.clock_true +
         Duration(std::llround(std::ceil(static_cast<double>(ahead.count()) / machine.clock_rate)));
}

void Simulator::World::carry_out(PeerNumber number, NodeEffects& effects) {
  for (Watcher* watcher : watchers) watcher->on_effects(outer, number, effects);
  const auto saboteur = saboteurs.find(number);
  Deeds deeds;
  for (Outgoing& outgoing : effects.messages) {
    if (saboteur != saboteurs.end()) {
      saboteur->second.send(std::move(outgoing), deeds);
    } else {
      send(number, number_of(outgoing.to), std::move(outgoing.message));
    }
  }
  for (const Cancel& cancel : effects.cancels) {
    const auto lane = lanes.find(pair_key(number, number_of(cancel.to)));
    if (lane == lanes.end()) continue;
    std::erase_if(lane->second.streams,
                  [&](const Stream& stream) { return stream.transfer.id == cancel.id; });
  }
  for (Transfer& transfer : effects.transfers) {
    if (saboteur != saboteurs.end()) {
      saboteur->second.send(std::move(transfer), deeds);
    } else {
      part_with(number, std::move(transfer));
    }
  }
  commit(number, std::move(deeds));
  for (Job& job : effects.jobs) begin_job(number, std::move(job));
}

void Simulator::World::arm(PeerNumber number) {
  Machine& machine = machines[number];
  const Time at = std::max(now, to_true(number, peers[number].node->deadline()));
  // An earlier timer is good enough: it only causes an extra tick, which then sets a later timer.
  if (at == never || (machine.armed != never && machine.armed <= at && machine.armed >= now)) {
    return;
  }
  machine.armed = at;
  queue.push(at, Due{number, peers[number].incarnation, ++machine.timer, false});
}

void Simulator::World::begin_job(PeerNumber number, Job job) {
  VirtualPeer& peer = peers[number];
  Machine& machine = machines[number];
  if (machine.job) {
    check(!machine.next_job, "two jobs at a time");
    machine.next_job = std::move(job);
    return;
  }
  double spread = 1;
  const double steps = steps_in(job);
  if (options.scenario.step_jitter > 0 && steps > 0) {
    spread = std::max(0.1, 1 + options.scenario.step_jitter * machine.pace.normal());
  }
  const double work = seconds(options.scenario.step) * steps * spread / peer.speed;
  machine.job_work = std::max(small_job, from_seconds(work));
  machine.job_write = job.saves() ? options.scenario.save + peer.disk.slower : Duration{};
  open_job(number, job);
  machine.job = std::move(job);
  machine.job_began = now;
  time_job(number);
}

/// If a job sends messages before its steps, runs the part of the job up to and including these
/// messages, so that they travel during the steps. The other part runs when the job ends.
void Simulator::World::open_job(PeerNumber number, Job& job) {
  const auto is_send = [](const Job::Task& task) {
    return std::holds_alternative<task::SendRound>(task);
  };
  const auto takes_steps = [](const Job::Task& task) {
    return std::holds_alternative<task::TakeSteps>(task);
  };
  const auto sends = std::ranges::find_if(job.tasks, is_send);
  if (std::none_of(sends, job.tasks.end(), takes_steps)) return;
  for (Watcher* watcher : watchers) watcher->on_job(outer, number, job);
  Job first{.number = job.number, .version = job.version, .tasks = {}};
  first.tasks.assign(std::move_iterator(job.tasks.begin()), std::move_iterator(sends + 1));
  job.tasks.erase(job.tasks.begin(), sends + 1);
  machines[number].opened = peers[number].work->run(std::move(first));
  queue.push(now, Opened{number, peers[number].incarnation, job.number});
}

/// Accounts for the work done since the last call, and computes the work that is left.
void Simulator::World::book_job(PeerNumber number) {
  Machine& machine = machines[number];
  TimeSpent& spent = peers[number].spent;
  const Duration passed = now - std::exchange(machine.job_booked, now);
  const Duration needed = from_seconds(seconds(machine.job_work) / machine.job_cpu);
  const Duration worked = std::min(passed, needed);
  const Duration done =
      passed >= needed ? machine.job_work : from_seconds(seconds(worked) * machine.job_cpu);
  machine.job_work -= done;
  machine.job_write -= std::min(passed - worked, machine.job_write);
  if (!trains(*machine.job) && options.node.mode != ModeKind::pipeline) return;
  spent.training += seconds(done);
  spent.slowed += std::max(0.0, seconds(worked - done));
}

/// Schedules the end of the job at the current pace.
void Simulator::World::time_job(PeerNumber number) {
  Machine& machine = machines[number];
  machine.job_booked = now;
  machine.job_cpu = slowness(number);
  const Time worked = later(now, from_seconds(seconds(machine.job_work) / machine.job_cpu));
  queue.push(later(worked, machine.job_write),
             Due{number, peers[number].incarnation, ++machine.jobs, true});
}

JobLeft Simulator::World::job_left(PeerNumber number) const {
  const Machine& machine = machines[number];
  if (!machine.job || peers[number].state != PeerState::up) return {};
  const auto* steps = first_of<task::TakeSteps>(machine.job->tasks);
  const Duration all = from_seconds(seconds(machine.job_work) / machine.job_cpu);
  return {.steps = steps != nullptr && !steps->rests ? steps->count : 0,
          .time = later(later(machine.job_booked, all), machine.job_write) - now};
}

void Simulator::World::finish_job(PeerNumber number) {
  VirtualPeer& peer = peers[number];
  Machine& machine = machines[number];
  book_job(number);
  Job job = *std::move(machine.job);
  machine.job.reset();
  std::optional<JobDone> opened = std::exchange(machine.opened, std::nullopt);
  if (!opened) {
    for (Watcher* watcher : watchers) watcher->on_job(outer, number, job);
  }
  JobDone done = peer.work->run(std::move(job));
  const bool save = done.job.saves();
  done.busy = now - machine.job_began;
  if (opened) {
    std::ranges::move(opened->job.tasks, std::back_inserter(done.job.tasks));
    std::ranges::move(opened->results, std::back_inserter(done.results));
  }
  if (save) {
    result::Saved saved;
    if (peer.disk.full) {
      saved.problem = "no space left on the virtual disk";
    } else if (keeps_images()) {
      peer.disk.commit(image_of(*peer.work));
      for (Watcher* watcher : watchers) watcher->on_save(outer, number, done.step, true);
    }
    done.results.emplace_back(std::move(saved));
  }
  for (Watcher* watcher : watchers) watcher->on_job_done(outer, number, done);
  if (machine.next_job) begin_job(number, *std::exchange(machine.next_job, std::nullopt));
  mix_event(1, number, done.step);
  mix(std::bit_cast<std::uint64_t>(done.score.loss));
  feed(number, {.kind = Input::Kind::done, .peer = number, .done = &done},
       [&](Node& node, Time t, NodeEffects& out) { node.complete(t, std::move(done), out); });
}

void Simulator::World::handle(Arrival& event) {
  if (!is_for(event.to, event.to_life)) {
    ++counts.lost;
    return;
  }
  if (postponed(event.to, event)) return;
  if (options.scenario.tickets && !accepts(event.to, event.from)) {
    ++counts.lost;
    return;
  }
  mix_event(2, event.to, event.message.index() << 32 | event.from);
  if (const auto hears = saboteurs.find(event.to); hears != saboteurs.end()) {
    hears->second.hear(event.message);
  }
  const Envelope envelope{id_of(event.from), std::move(event.message)};
  feed(event.to,
       {.kind = Input::Kind::message,
        .peer = event.to,
        .from = envelope.from,
        .message = &envelope.message},
       [&](Node& node, Time t, NodeEffects& out) { node.receive(t, envelope, out); });
}

void Simulator::World::handle(BlockArrival& event) {
  if (!is_for(event.to, event.to_life)) return;
  if (postponed(event.to, event)) return;
  if (options.scenario.tickets && !accepts(event.to, event.from)) return;
  mix_event(3, event.to, event.offset << 32 | event.from);
  if (const auto hears = saboteurs.find(event.to); hears != saboteurs.end()) {
    hears->second.hear(event.id);
  }
  const Block block{event.id, event.offset, event.payload.bytes};
  feed(event.to,
       {.kind = Input::Kind::block, .peer = event.to, .from = id_of(event.from), .block = &block},
       [&](Node& node, Time t, NodeEffects& out) {
         const std::span<std::byte> place =
             node.place(id_of(event.from), event.id, event.offset, block.bytes.size());
         Block placed = block;
         if (!place.empty()) {
           std::ranges::copy(block.bytes, place.begin());
           placed.bytes = place;
         }
         node.receive_block(t, id_of(event.from), placed, out);
       });
}

void Simulator::World::handle(Due& event) {
  Machine& machine = machines[event.peer];
  if (!is_for(event.peer, event.incarnation) || peers[event.peer].state != PeerState::up) return;
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

/// If the peer is stopped, it gets no input. The job's early messages then leave when the job ends.
void Simulator::World::handle(Opened& event) {
  const Machine& machine = machines[event.peer];
  const bool runs = is_for(event.peer, event.incarnation) &&
                    peers[event.peer].state == PeerState::up && machine.job &&
                    machine.job->number == event.job;
  if (!runs) return;
  mix_event(9, event.peer, event.job);
  feed(event.peer, {.kind = Input::Kind::opened, .peer = event.peer},
       [&](Node& node, Time t, NodeEffects& out) { node.gradient_ready(t, event.job, 0, out); });
}

void Simulator::World::handle(LaneBroken& event) {
  if (!is_for(event.peer, event.incarnation) || !is_reachable(event.peer)) return;
  if (postponed(event.peer, event)) return;
  mix_event(5, event.peer, event.other);
  feed(event.peer, {.kind = Input::Kind::lane_lost, .peer = event.peer, .from = id_of(event.other)},
       [&](Node& node, Time t, NodeEffects& out) { node.lane_lost(t, id_of(event.other), out); });
}

void Simulator::World::handle(Met& event) {
  if (!is_for(event.peer, event.incarnation) || !is_for(event.other, event.other_life)) return;
  if (postponed(event.peer, event)) return;
  machines[event.peer].heard[event.other] = event.other_life;
  mix_event(6, event.peer, event.other);
  feed(event.peer, {.kind = Input::Kind::contact, .peer = event.peer, .from = id_of(event.other)},
       [&](Node& node, Time t, NodeEffects& out) {
         if (event.again) node.restarted(t, id_of(event.other), out);
         node.contact(t, id_of(event.other), out);
       });
}

/// A process that joins another process keeps dialling it until there is an answer.
void Simulator::World::handle(Dial& event) {
  if (!is_for(event.from, event.incarnation)) return;
  const auto& heard = machines[event.from].heard;
  const auto answer = heard.find(event.to);
  if (answer != heard.end() && answer->second == peers[event.to].incarnation) return;
  if (peers[event.from].state == PeerState::up && peers[event.to].state == PeerState::up) {
    const Passage there = pass(event.from, event.to, 200);
    if (there.copies > 0 && may_talk(event.from, event.to)) {
      meet(event.from, event.to, there.arrivals[0]);
    } else if (there.copies > 0) {
      show_certificates(event.from, event.to);
    }
  }
  if (++event.tries < dials_max) queue.push(now + dial_again_after, event);
}

void Simulator::World::handle(FaultEvent& event) {
  if (starts_peers(event)) --starts_left;
  apply(event);
}

Simulator::Simulator(Options options, MakeWorkload make)
    : world_(std::make_unique<World>(*this, std::move(options), std::move(make))) {}

Simulator::~Simulator() = default;

void Simulator::watch(Watcher& watcher) { world_->watchers.push_back(&watcher); }

bool Simulator::step(Time end) {
  World& world = *world_;
  if (world.peers.empty()) world.prepare();
  if (world.queue.empty() || world.queue.next() > end || world.queue.next() == never) return false;
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
  if (world_->starts_left == 0) return true;
  for (PeerNumber number = 0; number < size(); ++number) {
    const PeerState state = world_->peers[number].state;
    if (state != PeerState::ended || world_->machines[number].taken_by) return false;
  }
  return true;
}

Time Simulator::now() const { return world_->now; }
Time Simulator::local(PeerNumber number) const { return world_->local(number); }
std::size_t Simulator::size() const { return world_->options.peers; }
const VirtualPeer& Simulator::peer(PeerNumber number) const { return world_->peers[number]; }
const std::vector<PeerId>& Simulator::allowed(PeerNumber number) const {
  return world_->allow_lists[number];
}

std::size_t Simulator::longest_lane(PeerNumber number) const {
  std::size_t longest = 0;
  for (const PeerNumber other : world_->machines[number].lanes) {
    const auto lane = world_->lanes.find(World::pair_key(number, other));
    if (lane != world_->lanes.end()) longest = std::max(longest, lane->second.streams.size());
  }
  return longest;
}

JobLeft Simulator::job_left(PeerNumber number) const { return world_->job_left(number); }
bool Simulator::is_hostile(PeerNumber number) const { return world_->saboteurs.contains(number); }
std::size_t Simulator::hostile_count() const { return world_->saboteurs.size(); }
void Simulator::revoke(PeerNumber number) { world_->revoke(number); }

bool Simulator::is_invited(PeerId peer) const { return world_->invited.contains(peer); }
std::optional<PeerNumber> Simulator::revoker(PeerId peer) const {
  const auto found = world_->revoked_by.find(peer);
  return found == world_->revoked_by.end() ? std::nullopt : std::optional(found->second);
}
bool Simulator::invite(PeerNumber by, PeerId guest) {
  return world_->invite(by, key_of(guest), "guest-" + std::to_string(number_of(guest)), false)
      .has_value();
}
bool Simulator::revoke_by(PeerNumber by, PeerId target) { return world_->revoke_by(by, target); }
void Simulator::set_walls(std::uint64_t ahead_s) { world_->set_walls(ahead_s); }

const WorldCounts& Simulator::counts() const { return world_->counts; }
StandInSigner Simulator::signer(PeerId peer) const { return {peer, world_->signing_secret}; }
const Simulator::Options& Simulator::options() const { return world_->options; }
bool Simulator::may_have_generations() const { return world_->may_have_generations(); }
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

}  // namespace gv
