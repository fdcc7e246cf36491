// Assembles a running peer from links, lanes, its node, a worker and a socket.
#include <fmt/format.h>

#include <algorithm>
#include <asio/post.hpp>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "consensus/trust/trust.hpp"
#include "net/host_address.hpp"
#include "net/pair_token.hpp"
#include "net/roster.hpp"
#include "peer/config/node_options.hpp"
#include "peer/config/refusal.hpp"
#include "peer/host/network_options.hpp"
#include "peer/host/replace_file.hpp"
#include "peer/host/running_host.hpp"
#include "peer/host/switch_command.hpp"

namespace gv {

/// Opens the control links, over which peers meet and exchange small messages.
void Host::open_links() {
  control_.emplace(
      io_,
      ControlLinks::Options{.identity = options_.identity,
                            .name = options_.name,
                            .authorized = options_.authorized,
                            .listen = options_.listen,
                            .advertise = options_.advertise,
                            .dial_from = options_.dial_from,
                            .session = session_,
                            .agreement = agreed_settings(),
                            .idle_close = from_seconds(options_.config.network.idle_close_s)},
      ControlLinks::Callbacks{
          .message =
              [this](Envelope envelope) {
                if (is_membership(envelope.message)) {
                  receive_of_members(std::move(envelope));
                } else {
                  feed([&](Time t, NodeEffects& out) { node_->receive(t, envelope, out); });
                }
              },
          .invite = [this](PeerId from,
                           const LaneInvite& invite) { lanes_->receive_invite(from, invite); },
          .contact =
              [this](PeerId peer) {
                contacts_.insert(peer);
                with_other_settings_.erase(peer);
                lanes_->reached(peer);
                feed([&](Time t, NodeEffects& out) { node_->contact(t, peer, out); });
              },
          .restarted =
              [this](PeerId peer) {
                lanes_->forget(peer);
                feed([&](Time t, NodeEffects& out) { node_->restarted(t, peer, out); });
              },
          .fact = [this](const Fact& fact) { note(fact); },
          .join = [this](const PublicKey& guest,
                         const JoinRequest& request) { return answer_guest(guest, request); },
          .shown =
              [this](const Certificates& chain) {
                feed([&](Time t, NodeEffects& out) { node_->receive_certificates(t, chain, out); });
              },
          .relay = [this](PeerId from,
                          const RelayStep& step) { lanes_->receive_relay(from, step); },
          .has_ticket = [this](const PublicKey& guest) { return tickets_->knows(guest); },
          .examine = [this](ExamCall call) { examine(std::move(call)); }});
}

/// Answers `grapevine doctor` and `grapevine ledger` for members, and doctor also for guests whose
/// ticket is still valid.
void Host::examine(ExamCall call) {
  if (call.is_guest) {
    std::string refusal = tickets_->refusal(call.from, {}, wall_s());
    if (call.request.wants_ledger) refusal = "only members of the swarm see its ledger";
    if (!refusal.empty()) {
      call.reply({.number = call.request.number, .refusal = refusal});
      return;
    }
  }
  examiner_.examine(call.source, call.request, std::move(call.reply));
}

/// Returns the peers that may relay a lane to `to`. The list starts with a different peer for each
/// pair, so that no single peer relays for all pairs.
std::vector<PeerId> Host::relays_to(PeerId to) const {
  std::vector<PeerId> relays;
  for (const Member& member : node_->membership().members()) {
    const bool can_relay = member.id != self_ && member.id != to && !member.address.empty() &&
                           member.state == MemberState::alive && control_->is_linked(member.id);
    if (can_relay) relays.push_back(member.id);
  }
  if (relays.empty()) return relays;
  const std::uint64_t pair = static_cast<std::uint64_t>(self_) ^ static_cast<std::uint64_t>(to);
  const auto first = relays.begin() + static_cast<std::ptrdiff_t>(pair % relays.size());
  std::rotate(relays.begin(), first, relays.end());
  return relays;
}

/// Tries to dial a peer without a relay. Returns false without dialling if the peer is linked
/// already, has no address, or was dialled less than `pause` ago.
bool Host::dial_directly(PeerId peer) {
  constexpr auto pause = std::chrono::seconds(30);
  if (control_->is_linked(peer)) return false;
  for (const Member& member : node_->membership().members()) {
    if (member.id != peer || member.address.empty()) continue;
    const auto [tried, is_first] = dialled_directly_.try_emplace(peer, now());
    if (!is_first && now() - tried->second < pause) return false;
    tried->second = now();
    control_->dial(peer, member.address);
    return true;
  }
  return false;
}

/// Returns the secret of a relayed lane to `peer`; nullopt if that peer may not have such a lane.
std::optional<LaneToken> Host::pair_token_of(PeerId peer, std::uint64_t stream) const {
  for (const AuthorizedPeer& each : options_.authorized) {
    const auto quarantine = quarantined_.find(peer);
    const bool is_free = quarantine == quarantined_.end() || quarantine->second.until <= now();
    if (peer_id(each.key) != peer || !is_free) continue;
    return pair_token(options_.identity, each.key, stream, agreed_settings());
  }
  return std::nullopt;
}

/// Tries to open direct connections to peers that are reached through relays.
void Host::leave_relays() {
  for (const Member& member : node_->membership().members()) {
    if (member.id == self_ || !lanes_->relay_of(member.id)) continue;
    if (control_->is_linked(member.id)) {
      lanes_->prefer_direct(member.id);
    } else {
      static_cast<void>(dial_directly(member.id));
    }
  }
}

/// Handles a message about members. If certificates have just changed, the message waits for
/// follow_certificates(). Until then, neither the links nor our signer know the keys of newcomers,
/// so an honest statement would count as forged.
void Host::receive_of_members(Envelope envelope) {
  const Trust* trust = node_->trust();
  if (trust != nullptr && trust->version() != followed_) {
    asio::post(io_, [this, envelope = std::move(envelope)]() mutable {
      receive_of_members(std::move(envelope));
    });
    return;
  }
  if (const std::string unsound = control_->roster().admit(envelope.message); !unsound.empty()) {
    control_->offend(envelope.from, unsound);
    return;
  }
  feed_from(envelope.from, [&](Time t, NodeEffects& out) { node_->receive(t, envelope, out); });
}

/// Handles a message that came over a lane. Messages about members are accepted only on a relayed
/// lane, which replaces the link.
void Host::receive_on_lane(Envelope envelope) {
  if (!is_membership(envelope.message)) {
    feed_from(envelope.from, [&](Time t, NodeEffects& out) { node_->receive(t, envelope, out); });
  } else if (lanes_->relay_of(envelope.from)) {
    receive_of_members(std::move(envelope));
  } else {
    control_->offend(envelope.from, "a message about members on a lane");
  }
}

/// Opens the bulk lanes. Warns if the links and lanes of all peers together need more descriptors
/// than this process may have. Except in mode `gossip`, the lanes send blocks from a shared buffer.
void Host::open_lanes() {
  const std::size_t peers =
      std::max<std::size_t>(options_.config.run.peers, options_.authorized.size());
  const std::string few = warning_of_descriptors(peers - std::min<std::size_t>(peers, 1));
  if (!few.empty()) warn(few);
  remove_old_sockets(options_.folder / "lanes");
  if (options_.config.run.mode != ModeKind::gossip) {
    lent_ = memory_to_share(options_.config.network.lane);
  }
  const std::string& listening = control_->listening();
  const std::string& advertised = control_->advertised();
  lanes_.emplace(
      io_,
      BulkLanes::Options{.listen_host = host_of(listening),
                         .advertise_host = host_of(advertised),
                         .port = options_.lane_port,
                         .dial_from = options_.dial_from,
                         .trusted_network = options_.config.network.trusted,
                         .lent = lent_,
                         .security = lane_security(options_.config.network.lane),
                         .socket_folder = options_.folder / "lanes",
                         .budget_bytes = options_.config.network.budget_mib << 20,
                         .progress_deadline = options_.config.gossip.progress_deadline,
                         .idle_close = from_seconds(options_.config.network.idle_close_s),
                         .self = self_},
      BulkLanes::Callbacks{
          .block =
              [this](PeerId from, const Block& block) {
                feed_from(from, [&](Time t, NodeEffects& out) {
                  node_->receive_block(t, from, block, out);
                });
              },
          .place = [this](PeerId from, const TransferId& id, std::uint64_t offset,
                          std::size_t bytes) { return node_->place(from, id, offset, bytes); },
          .message = [this](Envelope envelope) { receive_on_lane(std::move(envelope)); },
          .lost =
              [this](PeerId peer) {
                feed([&](Time t, NodeEffects& out) { node_->lane_lost(t, peer, out); });
              },
          .refused =
              [this](PeerId peer) {
                feed([&](Time t, NodeEffects& out) { node_->lane_refused(t, peer, out); });
              },
          .fact = [this](const Fact& fact) { note(fact); },
          .send_invite = [this](PeerId to,
                                const LaneInvite& invite) { return control_->send(to, invite); },
          .unsound = [this](PeerId from, const std::string& why) { control_->offend(from, why); },
          .send_relay = [this](PeerId to,
                               const RelayStep& step) { return control_->send(to, step); },
          .is_linked = [this](PeerId to) { return control_->is_linked(to); },
          .relays = [this](PeerId to) { return relays_to(to); },
          .dial_directly = [this](PeerId to) { return dial_directly(to); },
          .pair_token = [this](PeerId peer,
                               std::uint64_t stream) { return pair_token_of(peer, stream); }});
}

void Host::make_node(StartingPoint& point) {
  // A peer whose --join is wrong must end instead of training alone. Other ranks of a cohort,
  // however, may still be waiting for their machines, and the peers that a resumed peer has known
  // may have ended.
  const bool ends_alone = needs_others() && !options_.cohort && !options_.resume;
  PeerFacts peer{.steps = task_.trainer.steps,
                 .data = task_.shard ? task_.shard->size() : 0,
                 .all_data = task_.samples,
                 .test_data = task_.test ? task_.test->size() : 0,
                 .swarm = point.replica->swarm_note(),
                 .first_model = first_model_,
                 .wait_for = options_.wait_for,
                 // every_second() ends such a peer at the deadline. Twice that time keeps the
                 // barrier shut until then, even if this machine is busy or the peer starts slowly.
                 .alone_after = ends_alone ? 2 * join_deadline : Duration{},
                 .processors = static_cast<unsigned>(processors_.count()),
                 .revision = revision_,
                 .resumed = point.version,
                 .resumed_parts = point.parts,
                 .resumed_copies = std::move(point.copies)};
  if (lent_) peer.memory = lent_.get();
  point.model.has_buffers = options_.has_buffers;
  // The wall clock makes statements of this process later than all of earlier ones. It counts in
  // milliseconds because accusations can raise an incarnation twice a second.
  node_.emplace(Member{.id = self_,
                       .name = options_.name,
                       .address = control_->advertised(),
                       .incarnation = wall_us() / 1000,
                       .layout_hash = point.model.layout.hash()},
                authorized_ids(), session_,
                node_options(options_.config, point.model, std::move(peer)), signer_,
                // The seed is not the session, because other peers learn the session and must not
                // be able to predict our random numbers.
                Rng(random_number()));
}

/// Starts the worker with `replica`. `arrays` provides the arrays that the replica averages; null
/// if it has a model.
void Host::start_worker(std::unique_ptr<Replica> replica, ArraySource* arrays) {
  replica_ = replica.get();
  final_at_ = replica->step();
  replica->set_hooks(
      {.ready =
           [this](std::uint64_t job, std::size_t begin) {
             asio::post(io_, [this, job, begin] {
               feed([&](Time t, NodeEffects& out) { node_->gradient_ready(t, job, begin, out); });
             });
           },
       .pace = options_.hooks.pace,
       .stand_in = options_.hooks.stand_in});
  worker_.emplace(
      std::move(replica),
      [this](const Replica& own, const task::Save& how) { return save(own, how); },
      [this](JobDone done) {
        const bool is_last = replica_->has_ended();
        asio::post(io_, [this, is_last, done = std::make_shared<JobDone>(std::move(done))] {
          if (is_last) feed([this](Time t, NodeEffects& out) { node_->leave(t, out); });
          const auto* saved = first_of<result::Saved>(done->results);
          if (saved != nullptr) is_unsaved_ = !saved->problem.empty();
          if (!is_unsaved_) told_unsaved_ = false;
          if (is_unsaved_ && saved != nullptr) note(SaveFailed{.why = saved->problem});
          feed([&](Time t, NodeEffects& out) { node_->complete(t, std::move(*done), out); });
        });
      },
      [this](std::string why) {
        asio::post(io_, [this, why = std::move(why)] {
          note(TrainingFailed{.why = why});
          io_.stop();
        });
      });
  // A paced job sleeps, which must not happen on the loop.
  if (arrays == nullptr || options_.hooks.pace) return;
  worker_->set_arrays(*arrays, [this] { asio::post(io_, [this] { worker_->look(); }); });
}

/// Opens the status socket, which serves the peer's report and takes commands.
void Host::open_socket() {
  socket_.emplace(io_, options_.folder,
                  PeerSocket::Calls{.document = [this] { return report_json(report()); },
                                    .command =
                                        [this](const std::string& command) {
                                          std::string answer = answer_swarm_command(command);
                                          if (!answer.empty()) return answer;
                                          feed([&](Time t, NodeEffects& out) {
                                            answer = answer_command(command, *node_, t, out);
                                          });
                                          return answer;
                                        }});
}

/// Writes the checkpoint and, at the common end, the final model. Runs on the worker's thread.
std::string Host::save(const Replica& replica, const task::Save& how) {
  *final_checksum_ = replica.checksum();
  const std::filesystem::path file = options_.folder / "final.safetensors";
  std::string problem;
  if (how.is_common_end) {
    final_at_ = replica.step();
    for (const ReplicaPart& part : replica.parts()) {
      problem += write_model(file, *part.layout, part.parameters,
                             run_metadata(options_.config, config_text_));
    }
  } else if (replica.step() > final_at_) {
    // The final model of an earlier end is now out of date.
    std::error_code ignored;
    std::filesystem::remove(file, ignored);
  }
  const std::string of_checkpoint =
      save_replica(options_.folder / "checkpoints", replica, options_.config, config_text_);
  return problem.empty() ? of_checkpoint : problem;
}

void Host::write_result() {
  nlohmann::ordered_json result = nlohmann::ordered_json::parse(report_json(report()));
  result["conservation_checksum"] = *final_checksum_;
  result["conservation_checksum_at_start"] = initial_checksum(options_.shard);
  if (replace_file(options_.folder / "result.json", result.dump(1) + "\n")) return;
  const std::string why = std::system_category().message(errno);
  warn("result.json cannot be written: " + why +
       "; free some space on that disk, or make the folder writable");
  is_unsaved_ = true;
}

}  // namespace gv
