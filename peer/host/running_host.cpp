// The host's event loop: feeds input to the node, and carries out its effects.
#include "peer/host/running_host.hpp"

#include <fmt/format.h>
#include <sodium.h>
#include <unistd.h>

#include <algorithm>
#include <asio/post.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/fingerprint.hpp"
#include "base/printable.hpp"
#include "consensus/trust/trust.hpp"
#include "peer/config/refusal.hpp"
#include "peer/host/service_manager.hpp"
#include "peer/node/facts.hpp"

namespace gv {
namespace {

/// Time for which the loop runs on after the node has finished, so that our farewell message gets
/// out.
constexpr auto goodbye_time = std::chrono::milliseconds(200);

/// After the first hello with different settings, other peers have this long to report theirs.
constexpr Duration settings_wait = std::chrono::seconds(3);

std::string in_words(const Layout& layout) {
  return fmt::format("tensors {}, numbers {}, hash {:016x}", layout.slots().size(), layout.size(),
                     layout.hash());
}

}  // namespace

std::uint64_t random_number() {
  std::uint64_t value = 0;
  randombytes_buf(&value, sizeof value);
  return value;
}

bool is_membership(const Message& message) {
  return std::holds_alternative<Ping>(message) || std::holds_alternative<PingRequest>(message) ||
         std::holds_alternative<Ack>(message) || std::holds_alternative<Nack>(message) ||
         std::holds_alternative<PushPull>(message);
}

Host::Host(const HostOptions& options, Task task, SettingsRevision revision)
    : options_(options),
      task_(std::move(task)),
      revision_(std::move(revision)),
      self_(peer_id(options.identity.public_key)),
      session_(random_number()),
      log_({.folder = options.folder,
            .bytes_max = options.config.run.events_mib << 20,
            .name_of = [this](PeerId peer) { return name_of(peer); },
            .warn = [this](const std::string& why) { warn(why + "; training goes on"); }}),
      signer_(options.identity, options.authorized),
      config_text_(read_config_text(options.config_path)),
      cache_(options.folder / "members") {
  names_[self_] = options_.name;
  for (const AuthorizedPeer& peer : options_.authorized) names_[peer_id(peer.key)] = peer.name;
}

std::string Host::name_of(PeerId peer) const {
  const auto found = names_.find(peer);
  return found == names_.end() ? to_string(peer) : found->second;
}

/// Returns the ids of all peers that may join, including our own.
std::vector<PeerId> Host::authorized_ids() const {
  std::vector<PeerId> ids{self_};
  for (const AuthorizedPeer& peer : options_.authorized) ids.push_back(peer_id(peer.key));
  return ids;
}

/// Logs a fact, and passes it to all parts that react to it.
void Host::note(const Fact& fact) {
  log_.write(now(), fact);
  note_quarantine(fact);
  hold_against(fact);
  tell_people(fact);
}

/// Records a quarantine for the status. A peer whose links are cut also loses its lanes.
void Host::note_quarantine(const Fact& fact) {
  const auto begin = [&](PeerId peer, Time until, std::string why) {
    quarantined_[peer] = {
        .until = until, .what = std::string(gv::name_of(fact)), .why = std::move(why)};
  };
  if (const auto* model = std::get_if<PeerQuarantined>(&fact)) {
    begin(model->peer, now() + from_seconds(model->seconds), std::string(to_string(model->reason)));
  } else if (const auto* liar = std::get_if<EquivocationProved>(&fact)) {
    begin(liar->peer, never, "it signed two different decisions of one ballot");
  } else if (const auto* link = std::get_if<LinkQuarantined>(&fact)) {
    begin(link->peer, now() + from_seconds(link->seconds), link->why);
    // A quarantine that began in the links must also begin in the node, and the other way round.
    // Beginning it twice changes nothing. The call is posted, because we may be inside a call of
    // either part.
    asio::post(io_, [this, peer = link->peer] {
      lanes_->forget(peer);
      control_->quarantine(peer);
      feed([&](Time t, NodeEffects& out) { node_->refuse(t, peer, out); });
    });
  }
}

/// Counts a forged statement against the peer that passed it on.
void Host::hold_against(const Fact& fact) {
  const auto* refused = std::get_if<MessageRefused>(&fact);
  if (refused == nullptr || refused->reason != Reason::forged) return;
  // The call is posted, because we are still handling a message from that peer's link.
  asio::post(io_, [this, peer = refused->peer] {
    control_->offend(peer, "a statement in the name of a peer that has not signed it");
  });
}

/// Updates lanes after a fact about a peer. Returns true if the members changed.
bool Host::follow_peer(const Fact& fact) {
  if (const auto* aborted = std::get_if<ExchangeAborted>(&fact)) {
    if (aborted->reason == Reason::timed_out) lanes_->doubt(aborted->peer, std::chrono::seconds(1));
  }
  // Questions and ballots to this peer take its lane, which may be cut off without our knowing.
  if (const auto* silent = std::get_if<PeerSilent>(&fact)) {
    lanes_->doubt(silent->peer, from_seconds(silent->seconds));
  }
  const std::optional<PeerId> gone = gone_peer(fact);
  if (gone) lanes_->forget(*gone);
  return gone || std::holds_alternative<MemberJoined>(fact) ||
         std::holds_alternative<MemberReturned>(fact) ||
         std::holds_alternative<MemberSuspected>(fact) ||
         std::holds_alternative<MemberRefuted>(fact);
}

/// Sends a message. If sending fails, the next message may take a lane through another peer.
bool Host::send(const Outgoing& outgoing) {
  // Membership messages use a lane only if it is relayed and there is no link to the peer.
  const bool by_lane = !is_membership(outgoing.message) ||
                       (lanes_->relay_of(outgoing.to) && !control_->is_linked(outgoing.to));
  if (by_lane && lanes_->send_message(outgoing.to, outgoing.message)) return true;
  if (control_->send(outgoing.to, outgoing.message)) return true;
  lanes_->reach(outgoing.to);
  return false;
}

void Host::carry_out(NodeEffects& effects) {
  // Carrying out an effect can produce more effects, so repeat until there are none. The bound
  // keeps effects that cause each other from holding up the loop.
  for (int round = 0; round < 16; ++round) {
    NodeEffects more;
    if (options_.hooks.watcher) options_.hooks.watcher(*node_, effects);
    bool members_changed = false;
    for (const Fact& fact : effects.facts) {
      note(fact);
      members_changed = follow_peer(fact) || members_changed;
    }
    if (members_changed) sync_addresses();
    for (const Outgoing& outgoing : effects.messages) {
      if (!send(outgoing) && std::holds_alternative<Offer>(outgoing.message)) {
        node_->lane_refused(now(), outgoing.to, more);
      }
    }
    for (Transfer& transfer : effects.transfers) lanes_->send(std::move(transfer));
    for (const Cancel& cancel : effects.cancels) lanes_->cancel(cancel);
    for (Job& job : effects.jobs) worker_->post(std::move(job));
    const bool quiet = more.messages.empty() && more.transfers.empty() && more.cancels.empty() &&
                       more.facts.empty() && more.jobs.empty();
    if (quiet) break;
    effects = std::move(more);
  }
  keep_revision();
  // The call is posted, because it may close a link whose message we are handling.
  const Trust* trust = node_->trust();
  const bool must_leave = trust != nullptr && !node_->is_leaving() && trust->must_leave(now());
  if (must_leave || (trust != nullptr && trust->version() != followed_)) {
    asio::post(io_, [this] { follow_certificates(); });
  }
  if (node_->is_leaving()) stop_learner();
  if (node_->is_finished() && !ending_) {
    ending_ = true;
    second_.expires_after(goodbye_time);
    second_.async_wait([this](asio::error_code) { io_.stop(); });
  }
}

void Host::stop_learner() {
  if (replica_ != nullptr && !std::exchange(told_to_stop_, true)) replica_->stop();
}

/// Stores the settings revision, so that it still applies after a restart.
void Host::keep_revision() {
  const SettingsRevision* newest = node_->mode().revision();
  if (newest == nullptr || *newest <= revision_) return;
  revision_ = *newest;
  if (!write_revision(options_.folder, revision_)) log_.write(now(), SettingsRevisionNotWritten{});
}

void Host::arm() {
  const Time at = node_->deadline();
  if (at == armed_.at) return;
  armed_.at = at;
  const std::uint64_t generation = ++armed_.generation;
  if (at == never) {
    timer_.cancel();
    return;
  }
  timer_.expires_at(began_ + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                 at.time_since_epoch()));
  timer_.async_wait([this, generation](asio::error_code error) {
    // A cancelled wait can still report success, so only the newest wait counts.
    if (error || generation != armed_.generation) return;
    armed_.at = never;
    feed([this](Time t, NodeEffects& out) { node_->tick(t, out); });
  });
}

void Host::sync_addresses() {
  for (const Member& member : node_->membership().statements()) {
    // A dead peer stays in the file. It may run again by the time we restart, and may then be the
    // only peer that knows others.
    if (member.state == MemberState::left) {
      cached_.erase(member.id);
    } else if (!member.address.empty()) {
      cached_[member.id] = member;
    }
    std::string& address = addresses_[member.id];
    if (address == member.address) continue;
    address = member.address;
    control_->set_address(member.id, address);
  }
}

/// Returns the properties that must be equal on all peers. They are the settings, the tensors of
/// the model, and the swarm's budget in samples, which depends on the data. Where they apply, the
/// samples of a pipeline's tests, the size of the optimiser's state and the number of ranks in a
/// cohort are included too.
std::vector<std::pair<std::string, std::string>> Host::agreed_settings() const {
  auto agreed = agreement(options_.config);
  if (!layout_.empty()) agreed.emplace_back("layout of the model", layout_);
  const std::uint64_t budget = swarm_budget(options_.config, task_.samples);
  if (budget > 0) agreed.emplace_back("samples of the budget", std::to_string(budget));
  // The peers of a pipeline pass the test samples through its stages together.
  if (options_.config.run.mode == ModeKind::pipeline && task_.test) {
    agreed.emplace_back("samples of the test data", std::to_string(task_.test->size()));
  }
  // In mode `allreduce`, a newcomer takes over the optimiser's state.
  if (options_.config.run.mode == ModeKind::allreduce) {
    agreed.emplace_back("numbers of the optimiser's state", std::to_string(state_));
  }
  if (options_.cohort) {
    agreed.emplace_back("ranks of the cohort", std::to_string(options_.authorized.size()));
  }
  return agreed;
}

void Host::reload_authorized() {
  // Peers of a cohort, or of a swarm with certificates, have no file of authorised keys.
  if (options_.cohort || options_.swarm) return;
  LoadedAuthorizedPeers loaded = load_authorized_peers(options_.authorized_file);
  if (loaded.problems.empty()) {
    loaded.problems = problems_of_change(options_.authorized_file.string(), options_.authorized,
                                         loaded.peers, options_.identity.public_key);
  }
  if (!loaded.problems.empty()) {
    for (const Problem& problem : loaded.problems) warn(to_string(problem));
    log_.write(now(), AllowListRefused{.why = to_string(loaded.problems.front())});
    return;
  }
  const std::vector<AuthorizedPeer> before =
      std::exchange(options_.authorized, std::move(loaded.peers));
  forget_unlisted(before);
  for (const AuthorizedPeer& peer : options_.authorized) names_[peer_id(peer.key)] = peer.name;
  signer_.authorize(options_.authorized);
  control_->authorize(options_.authorized);
  std::erase_if(cached_,
                [this](const auto& entry) { return !control_->roster().is_other(entry.first); });
  log_.write(now(), AllowListRead{});
  feed([this](Time t, NodeEffects& out) { node_->authorize(t, authorized_ids(), out); });
  dial_listed();
}

/// Ends the lanes of peers that are no longer on the list, and the streams relayed for them. Even a
/// peer that was never a member may have lanes or streams.
void Host::forget_unlisted(const std::vector<AuthorizedPeer>& before) {
  std::set<PeerId> listed;
  for (const AuthorizedPeer& peer : options_.authorized) listed.insert(peer_id(peer.key));
  for (const AuthorizedPeer& peer : before) {
    if (!listed.contains(peer_id(peer.key))) lanes_->forget(peer_id(peer.key));
  }
}

void Host::on_signal(int signal) {
  if (signal == SIGHUP) {
    reload_authorized();
    return;
  }
  if (interrupted_ && now() - *interrupted_ < same_interrupt) return;
  if (interrupted_) ::_exit(130);
  interrupted_ = now();
  tell_service_manager("STOPPING=1");
  if (!options_.quiet) say(stdout, "leaving after the job under way; once more to stop at once\n");
  feed([this](Time t, NodeEffects& out) { node_->leave(t, out); });
}

Report Host::report() const {
  Report report = make_report(*node_, log_, task_.trainer.batch, now());
  if (!takes_labels(options_.config.model.loss)) report.accuracy.reset();
  report.listening = control_->listening();
  report.lanes = lanes_->listening();
  // The mode's section of the report shows the swarm's budget.
  report.steps = task_.trainer.follows_swarm ? 0 : task_.trainer.steps;
  report.lane_bytes_sent = lanes_->counters().bytes_sent;
  report.lane_bytes_received = lanes_->counters().bytes_received;
  report.messages_superseded = lanes_->counters().superseded;
  report.control_bytes_sent = control_->counters().bytes_sent;
  report.control_bytes_received = control_->counters().bytes_received;
  report.control_messages_sent = control_->counters().messages_sent;
  report.control_messages_received = control_->counters().messages_received;
  report.refused_links = control_->counters().refused;
  report.streams_relayed = lanes_->counters().streams_relayed;
  report.bytes_relayed = lanes_->counters().bytes_relayed;
  for (const auto& [member, is_self] : report.members) {
    const std::optional<PeerId> relay = lanes_->relay_of(member.id);
    if (relay) report.relays[member.id] = name_of(*relay);
  }
  for (const auto& [peer, record] : quarantined_) {
    if (record.until <= now()) continue;
    report.quarantined.push_back(
        {.peer = name_of(peer), .event = record.what, .why = record.why, .seconds = {}});
    if (record.until != never) report.quarantined.back().seconds = seconds(record.until - now());
  }
  return report;
}

/// Returns the number of other peers on the allow-list.
std::size_t Host::others() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      options_.authorized,
      [this](const AuthorizedPeer& peer) { return peer.key != options_.identity.public_key; }));
}

/// True if this peer must meet others, because it was given some to join, belongs to a cohort, or
/// does not listen.
bool Host::needs_others() const {
  return !options_.join.empty() || cohort_ || options_.listen.empty();
}

/// True while this peer may still learn that it was started with the wrong settings.
bool Host::is_newcomer() const {
  return needs_others() && now().time_since_epoch() <= join_deadline;
}

/// Returns why a newcomer should end; empty if it may continue. A single peer with different
/// settings may itself be wrong or hostile. So at least two peers must disagree with us, and more
/// must disagree than agree. If there is only one other peer, its disagreement is enough.
Problems Host::problems_of_joining() const {
  const std::size_t differ = with_other_settings_.size();
  const bool has_waited =
      heard_other_settings_at_ && now() - *heard_other_settings_at_ >= settings_wait;
  const bool is_enough = differ >= 2 || others() == 1;
  if (is_newcomer() && has_waited && is_enough && differ > contacts_.size()) {
    return {{"settings",
             fmt::format("{} of the {} peers that answered have others", differ,
                         differ + contacts_.size()),
             "give every peer of a run the same settings"}};
  }
  const bool alone = contacts_.empty() && needs_others() && !options_.resume;
  if (!alone || is_newcomer() || node_->mode().step() > 0) return {};
  if (differ > 0) {
    return {{"settings",
             fmt::format("the only peer that answered within {:.0f} s has others",
                         seconds(join_deadline)),
             "give every peer of a run the same settings"}};
  }
  if (cohort_) return {};  // The other peers may still be waiting for their machines.
  return {{options_.join.empty() ? "the allow-list" : "--join",
           fmt::format("no authorised peer answered within {:.0f} s", seconds(join_deadline)),
           options_.swarm
               ? "check the address, and that the peer there runs; or this peer was revoked: join "
                 "with a new ticket and another --folder"
               : "check the address, that the peer there runs, and that each side's allow-list has "
                 "the other's key"}};
}

void Host::every_second() {
  if (ending_) return;
  // A manager with a full queue of messages is told a second later.
  told_ready_ = told_ready_ || is_guest() || tell_service_manager("READY=1");
  // Without a job under way, only this check shows that the user's loop has left.
  if (is_guest() && replica_->has_ended() && !node_->is_leaving()) {
    feed([this](Time t, NodeEffects& out) { node_->leave(t, out); });
  }
  sync_addresses();
  cache_.write(cached_);  // At most once in a second, however often a member leaves and returns.
  leave_relays();
  if (cohort_) meet_cohort();
  if (options_.swarm) {
    node_->set_wall(now(), wall_s());
    keep_certificates();
    open_door();
    show_certificates();
  }
  print_waiting();
  const Report current = report();
  if (now() >= next_report_) {
    next_report_ = now() + from_seconds(options_.config.metrics.every_s);
    write_metrics(options_.folder / "metrics.prom", current);
    if (!options_.quiet) say(stdout, report_line(current) + "\n");
  }
  if (const Problems problems = problems_of_joining(); !problems.empty()) {
    for (const Problem& problem : problems) warn(to_string(problem));
    exit_code_ = is_guest() && problems.front().place == "--join" ? unreachable_code : 2;
    io_.stop();
    return;
  }
  second_.expires_after(std::chrono::seconds(1));
  second_.async_wait([this](asio::error_code error) {
    if (!error) every_second();
  });
}

/// Makes the built-in learner of a whole model.
std::unique_ptr<Learner> Host::make_learner() {
  RunAside aside;
  if (task_.shard->blocks) {
    reading_.emplace();
    aside = [this](std::function<void()> work) { return reading_->start(std::move(work)); };
  }
  return learner_of(task_, run_in_threads, std::move(aside));
}

int Host::run(std::unique_ptr<Learner> learner) {
  if (learner) first_model_ = fingerprint(learner->parameters());
  if (!learner && !task_.stages) learner = make_learner();
  if (learner) layout_ = in_words(learner->layout());
  ArraySource* const arrays = learner ? learner->arrays() : nullptr;
  samples_ = learner ? learner->samples() : task_.shard->size();
  state_ = learner ? learner->optimizer_size() : 0;
  StartingPoint point = starting_point(task_, std::move(learner), options_.folder / "checkpoints",
                                       options_.shard, options_.resume);
  for (const Fact& fact : point.facts) log_.write(now(), fact);
  const std::vector<Fact> lost = lost_checkpoints(point);
  for (const Fact& fact : lost) {
    const auto name = [this](PeerId peer) { return name_of(peer); };
    warn(printable(sentence(describe(fact), name)));
  }
  if (!point.problems.empty()) return refuse(point.problems);
  open_links();
  open_lanes();
  const bool has_no_checkpoint =
      !point.facts.empty() && std::holds_alternative<ResumedFromNothing>(point.facts.back());
  // A run that begins again after its checkpoints were refused would overwrite and delete them.
  const bool is_new_run = !options_.resume || (has_no_checkpoint && !lost.empty());
  const Problems problems = take_over_folder(is_new_run);
  if (!problems.empty()) return refuse(problems);
  make_node(point);
  start_worker(std::move(point.replica), arrays);
  open_socket();
  if (options_.cohort && others() > 0) open_rendezvous();
  if (!is_guest()) {
    signals_.emplace(io_, SIGINT, SIGTERM, SIGHUP);
    wait_for_signal();
    // A SIGHUP that came while the peer read its data is handled now.
    hold_hangups(false);
  }
  if (!options_.quiet) print_greeting(has_no_checkpoint && lost.empty());
  if (options_.swarm) enter_swarm();

  const bool joins_others = join_others();
  feed([&](Time t, NodeEffects& out) { node_->start(t, point.step, joins_others, out); });
  every_second();
  const auto run_one = [this] {
    const bool polls = node_->should_busy_poll() || worker_->awaits_array();
    return polls ? run_one_polling(io_, spin_wait_) : io_.run_one();
  };
  while (run_one() > 0) keep_place();

  cache_.write(cached_);
  stop_learner();
  worker_.reset();
  if (cohort_) cohort_->rendezvous.withdraw();
  write_result();
  const int code = exit_code_ == 0 && is_unsaved_ ? 1 : exit_code_;
  if (code == 0) print_end();
  return code;
}

/// Prints why the peer cannot start. Returns the exit code for that.
int Host::refuse(const Problems& problems) const {
  for (const Problem& problem : problems) warn(to_string(problem));
  return 2;
}

/// Dials the peers that have an address on the list. It is not an error if one of them is not
/// running yet.
void Host::dial_listed() {
  for (const AuthorizedPeer& peer : options_.authorized) {
    const PeerId id = peer_id(peer.key);
    if (!peer.address.empty() && !control_->is_linked(id)) control_->dial(id, peer.address);
  }
}

/// Dials the peers given with --join, those known before, and those with an address on the list.
/// Returns false if this peer may start without any of them.
bool Host::join_others() {
  dial_listed();
  std::set<std::string> joined;
  for (const std::string& address : options_.join) {
    if (joined.insert(address).second) control_->join(address);
  }
  const std::vector<Member> cached =
      options_.resume ? cache_.read(control_->roster(), signer_) : std::vector<Member>();
  for (const Member& member : cached) {
    const std::string address = member.name + "@" + member.address;
    if (!joined.contains(member.address) && joined.insert(address).second) control_->join(address);
    cached_[member.id] = member;
  }
  return needs_others() || !cached.empty();
}

/// Pins our threads to a processor. Unpins them while other programs compute, because the system
/// then places them better.
void Host::keep_place() {
  if (is_guest()) return;
  const std::optional<HostPlace> place = node_->host_place();
  const bool alone = spin_wait_.is_awake(AdaptiveSpinWait::Clock::now());
  processors_.pin_cpu(place && alone ? processor_for(*place, processors_.count()) : std::nullopt);
}

void Host::wait_for_signal() {
  signals_->async_wait([this](asio::error_code error, int signal) {
    if (error) return;
    on_signal(signal);
    wait_for_signal();
  });
}

}  // namespace gv
