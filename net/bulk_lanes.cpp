// Opens lanes: invitations go over the control link, and the side that can dial does so.
#include "net/bulk_lanes.hpp"

#include <sodium.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "net/bulk_lanes_impl.hpp"
#include "net/steady_time.hpp"
#include "net/wire.hpp"

namespace gv {
namespace {

/// Limit on a lane's waiting messages. Further messages use control links.
constexpr std::size_t messages_max = 64;
/// Limit on a lane's transfers. Further transfers are dropped.
constexpr std::size_t transfers_max = 4096;
/// Limit on the ended lanes whose connections a peer has not closed yet. They hold memory, so a
/// peer that reaches the limit gets no new lane.
constexpr std::size_t draining_max = 4;
constexpr auto invite_deadline = std::chrono::seconds(5);
constexpr auto housekeeping_period = std::chrono::milliseconds(250);

/// True if `newer` takes the place of `old`, even if part of `old` has been sent. A peer downloads
/// one state of each stage at a time, so a second request ends the first. Without this, a hostile
/// peer could make a lane hold many states.
bool replaces(const Transfer& newer, const Transfer& old) {
  const bool are_states =
      newer.id.kind == TransferKind::state && old.id.kind == TransferKind::state;
  return newer.id == old.id ||
         (are_states && newer.id.owner == old.id.owner && newer.id.stage == old.id.stage);
}

std::uint64_t random_number() {
  std::uint64_t value = 0;
  while (value == 0) randombytes_buf(&value, sizeof value);
  return value;
}

}  // namespace

BulkLanes::Impl::Impl(asio::io_context& loop, Options given, Callbacks calls)
    : io(loop),
      options(std::move(given)),
      callbacks(std::move(calls)),
      doors(io,
            {.listen_host = options.listen_host,
             .advertise_host = options.advertise_host,
             .port = options.port,
             .dial_from = options.dial_from,
             .local = options.security == Security::automatic ||
                      options.security == Security::unix_socket,
             .remote = options.security != Security::unix_socket,
             .plain = options.trusted_network && options.security != Security::tls,
             .socket_folder = options.socket_folder,
             .lent = options.lent},
            {.accepted = [this](
                             const LaneHandshake::Proved& proved,
                             ConnectionPtr connection) { accepted(proved, std::move(connection)); },
             .fact = callbacks.fact}),
      relaying(io, {}, doors,
               [this](PeerId to, const RelayStep& step) { return callbacks.send_relay(to, step); }),
      echoing(io, {}, doors),
      timer(std::make_shared<asio::steady_timer>(io)) {
  housekeeping();
}

BulkLanes::Impl::~Impl() {
  alive.reset();
  timer->cancel();
  for (auto& [peer, lane] : lanes) {
    if (lane.connection) DrainingConnections::drop(*lane.connection);
  }
}

/// Returns true if one more lane fits. Closes the lane that has been idle longest if that is
/// necessary.
bool BulkLanes::Impl::make_room() {
  // A lane can hold a ring buffer in each direction, or a block in each direction.
  const std::size_t each =
      options.security == Security::automatic || options.security == Security::unix_socket
          ? 2 * ring_bytes
          : 2 * block_bytes_max;
  const std::size_t affordable = std::max<std::size_t>(1, options.budget_bytes / each);
  if (lanes.size() < std::min(options.lanes_max, affordable)) return true;
  auto idlest = lanes.end();
  for (auto lane = lanes.begin(); lane != lanes.end(); ++lane) {
    if (lane->second.state != Lane::State::open || lane->second.is_busy()) continue;
    if (idlest == lanes.end() || lane->second.progress < idlest->second.progress) idlest = lane;
  }
  if (idlest == lanes.end()) return false;
  retired.add(idlest->second.connection);
  lanes.erase(idlest);
  return true;
}

LaneInvite BulkLanes::Impl::make_invite(PeerId peer, std::uint64_t id,
                                        const LaneToken& token) const {
  const auto known = previous.find(peer);
  LaneInvite invite{
      .lane = id, .token = token, .previous = known == previous.end() ? 0 : known->second};
  doors.describe(invite);
  return invite;
}

void BulkLanes::Impl::invite(Lane& lane) {
  lane.state = Lane::State::invited;
  lane.id = random_number();
  lane.progress = Clock::now();
  if (is_blocked(lane.peer) && ask_relay(lane.peer)) return;
  LaneToken token;
  randombytes_buf(token.data(), token.size());
  doors.expect(lane.id, token, LaneHandshake::Use::lane, lane.peer);
  if (callbacks.send_invite(lane.peer, make_invite(lane.peer, lane.id, token))) return;
  if (!is_out_of_reach(lane.peer) || !ask_relay(lane.peer)) refused(lane.peer);
}

/// True if a lane has this number, or is being opened with it. Another lane must not get the same
/// number: peers choose the numbers, and one peer must not choose the number of another peer's
/// lane.
bool BulkLanes::Impl::is_taken(std::uint64_t number) const {
  return doors.uses(number) || std::ranges::any_of(lanes, [number](const auto& item) {
           return item.second.id == number;
         });
}

/// Gives up the attempt to open a lane.
void BulkLanes::Impl::give_up(const Lane& lane) {
  doors.expect_no_more(lane.id);
  if (lane.relay) doors.expect_no_more(relay_lane(lane.id, options.self, lane.peer));
}

/// Handles an invitation from the other side, or the other side's answer to ours.
void BulkLanes::Impl::answer(PeerId peer, const LaneInvite& theirs) {
  auto found = lanes.find(peer);
  if (theirs.answer) {
    const bool ours = found != lanes.end() && found->second.id == theirs.lane &&
                      doors.expects(theirs.lane) && found->second.state != Lane::State::open;
    if (!ours) return;
    if (theirs.refused) {
      refused(peer);
    } else {
      // The other side could not dial us, so we dial it, with the token that we gave it.
      dial(peer, theirs);
    }
    return;
  }
  const bool is_repeated = found != lanes.end() && found->second.id == theirs.lane;
  const bool has_room = found != lanes.end() || make_room();
  if (!has_room || (!is_repeated && is_taken(theirs.lane))) {
    LaneInvite no{.lane = theirs.lane};
    no.answer = true;
    no.refused = true;
    callbacks.send_invite(peer, no);
    return;
  }
  if (found == lanes.end()) found = lanes.emplace(peer, Lane{.peer = peer}).first;
  Lane& lane = found->second;
  const bool waiting = lane.state == Lane::State::invited || lane.state == Lane::State::dialling;
  // If both sides invite at once, the smaller lane number wins. Both sides know both numbers. Our
  // attempt through a relay always loses, because the invitation shows that the peer needs no
  // relay.
  if (waiting && !lane.relay && lane.id < theirs.lane) return;
  if (waiting) give_up(lane);
  const bool lost = lane.state == Lane::State::open;
  if (lost) {
    // Accept only if the other side has lost this very lane. An older invitation names an earlier
    // lane.
    if (theirs.previous != lane.id) return;
    retired.add(lane.connection);
    lane.connection.reset();
    lane.reset_stream();
  }
  lane.relay.reset();
  lane.state = Lane::State::dialling;
  lane.id = theirs.lane;
  lane.progress = Clock::now();
  doors.expect(theirs.lane, theirs.token, LaneHandshake::Use::lane, peer);
  dial(peer, theirs);
  if (!lost) return;
  callbacks.fact(LaneLost{.peer = peer, .why = "the partner lost it first"});
  callbacks.lost(peer);
}

void BulkLanes::Impl::dial(PeerId peer, const LaneInvite& invite) {
  doors.dial(invite, [this, peer, invite](ConnectionPtr connection) {
    if (connection) {
      opened(peer, invite.lane, std::move(connection));
    } else {
      dial_failed(peer, invite);
    }
  });
}

/// Called when we cannot dial the other side. If it invited us and we listen, it may dial us
/// instead.
void BulkLanes::Impl::dial_failed(PeerId peer, const LaneInvite& invite) {
  const auto found = lanes.find(peer);
  if (found == lanes.end() || found->second.id != invite.lane ||
      found->second.state == Lane::State::open) {
    return;
  }
  LaneInvite reply = make_invite(peer, invite.lane, {});
  reply.answer = true;
  if (!invite.answer && !doors.advertised().empty()) {
    found->second.progress = Clock::now();
    callbacks.send_invite(peer, reply);
    return;
  }
  reply.refused = true;
  if (!invite.answer) callbacks.send_invite(peer, reply);
  refused(peer);
}

void BulkLanes::Impl::accepted(const LaneHandshake::Proved& proved, ConnectionPtr connection) {
  if (proved.use == LaneHandshake::Use::relay) {
    if (!relaying.accepted(proved, connection)) connection->close();
  } else if (proved.peer == PeerId{}) {
    if (!echoing.accepted(proved.lane, connection)) connection->close();
  } else {
    opened(proved.peer, proved.lane, std::move(connection));
  }
}

void BulkLanes::Impl::opened(PeerId peer, std::uint64_t id, ConnectionPtr connection) {
  doors.expect_no_more(id);
  const auto found = lanes.find(peer);
  if (found == lanes.end() || found->second.id != id || found->second.state == Lane::State::open) {
    connection->close();
    return;
  }
  if (retired.count(peer) >= draining_max) {
    connection->close();
    refused(peer);
    return;
  }
  Lane& lane = found->second;
  connection->peer = peer;
  if (!connection->ring_out) connection->tune();
  asio::error_code ignored;
  connection->socket.non_blocking(true, ignored);
  lane.state = Lane::State::open;
  lane.connection = std::move(connection);
  lane.progress = lane.heard = Clock::now();
  lane.reset_stream();
  previous[peer] = id;
  if (lane.relay) {
    vain_offers.erase({*lane.relay, peer});
  } else {
    moves.erase(peer);
  }
  ++counters.lanes_opened;
  callbacks.fact(LaneOpened{.peer = peer, .kind = lane.connection->kind});
  read_on(peer);
  write_next(peer);
}

void BulkLanes::Impl::refused(PeerId peer) {
  const auto found = lanes.find(peer);
  if (found == lanes.end()) return;
  give_up(found->second);
  const std::optional<PeerId> relay = found->second.relay;
  lanes.erase(found);
  if (relay) offer_was_vain(*relay, peer);
  if (!relay) moves[peer].refused = Clock::now();
  const auto move = moves.find(peer);
  if (move != moves.end() && std::exchange(move->second.is_under_way, false)) {
    move->second.not_before = Clock::now() + blocked_for;
  }
  ++counters.lanes_refused;
  callbacks.fact(LaneRefused{.peer = peer});
  callbacks.refused(peer);
}

auto BulkLanes::Impl::current(PeerId peer, const ConnectionPtr& connection) -> Lane* {
  const auto found = lanes.find(peer);
  return found != lanes.end() && found->second.connection == connection ? &found->second : nullptr;
}

void BulkLanes::Impl::broken(PeerId peer, const ConnectionPtr& connection, const std::string& why) {
  Lane* lane = current(peer, connection);
  if (lane == nullptr) return;
  retired.add(connection);
  lanes.erase(peer);
  callbacks.fact(LaneLost{.peer = peer, .why = why});
  callbacks.lost(peer);
}

void BulkLanes::Impl::housekeeping() {
  const auto now = Clock::now();
  std::vector<PeerId> unanswered;
  std::vector<std::pair<PeerId, ConnectionPtr>> stuck;
  std::vector<PeerId> read_all;
  std::vector<PeerId> relayed;
  for (auto lane = lanes.begin(); lane != lanes.end();) {
    Lane& own = lane->second;
    if (own.state != Lane::State::open) {
      if (now - own.progress > invite_deadline) unanswered.push_back(lane->first);
    } else if (own.is_busy() && now - own.moved() > options.progress_deadline) {
      stuck.emplace_back(lane->first, own.connection);
    } else if (!own.is_busy() && now - own.moved() > options.idle_close) {
      retired.add(own.connection);
      lane = lanes.erase(lane);
      continue;
    } else if (can_give_way(own)) {
      relayed.push_back(lane->first);
    } else if (own.lent_read > 0 || !own.connection->holds.empty()) {
      read_all.push_back(lane->first);
    }
    ++lane;
  }
  retired.tidy_up();
  std::erase_if(budgets, [](const auto& entry) { return entry.second.is_full(steady_time()); });
  for (const PeerId peer : unanswered) refused(peer);
  for (const auto& [peer, connection] : stuck) broken(peer, connection, "no progress");
  for (const PeerId peer : read_all) write_next(peer, true);
  for (const PeerId peer : relayed) move_lane(peer);
  doors.tidy_up();
  relaying.tidy_up();
  echoing.tidy_up();
  timer->expires_after(housekeeping_period);
  timer->async_wait([this, weak = std::weak_ptr(alive)](asio::error_code error) {
    if (!error && !weak.expired()) housekeeping();
  });
}

BulkLanes::BulkLanes(asio::io_context& io, Options options, Callbacks callbacks)
    : impl_(std::make_unique<Impl>(io, std::move(options), std::move(callbacks))) {}

BulkLanes::~BulkLanes() = default;

const std::string& BulkLanes::listening() const { return impl_->doors.listening(); }

void BulkLanes::offer_echo(ExamAnswer& answer) {
  answer.lanes = impl_->doors.advertised();
  if (const auto offer = impl_->echoing.offer()) {
    answer.lane = offer->lane;
    answer.token = offer->token;
  }
}

void BulkLanes::receive_invite(PeerId from, const LaneInvite& invite) {
  impl_->answer(from, invite);
}

void BulkLanes::send(Transfer transfer) {
  const PeerId peer = transfer.to;
  auto found = impl_->lanes.find(peer);
  if (found == impl_->lanes.end()) {
    if (!impl_->make_room()) {
      impl_->callbacks.refused(peer);
      return;
    }
    found = impl_->lanes.emplace(peer, Impl::Lane{.peer = peer}).first;
  }
  Impl::Lane& lane = found->second;
  std::erase_if(lane.queue, [&](const Transfer& old) { return replaces(transfer, old); });
  impl_->counters.superseded +=
      std::erase_if(lane.queue, [&](const Transfer& old) { return supersedes(transfer, old); });
  if (lane.queue.size() < transfers_max) {
    const auto place = transfer.can_wait ? lane.queue.end()
                                         : std::ranges::find_if(lane.queue, &Transfer::can_wait);
    lane.queue.insert(place, std::move(transfer));
  }
  if (lane.state == Impl::Lane::State::none) {
    impl_->invite(lane);
  } else {
    impl_->write_next(peer);
  }
}

void BulkLanes::cancel(const Cancel& cancel) {
  const auto found = impl_->lanes.find(cancel.to);
  if (found == impl_->lanes.end()) return;
  std::erase_if(found->second.queue,
                [&](const Transfer& transfer) { return transfer.id == cancel.id; });
}

bool BulkLanes::send_message(PeerId to, const Message& message) {
  const auto found = impl_->lanes.find(to);
  if (found == impl_->lanes.end() || found->second.state != Impl::Lane::State::open ||
      found->second.messages.size() >= messages_max) {
    return false;
  }
  try {
    found->second.messages.push_back(encode(message));
  } catch (const std::exception&) {
    // The caller then uses the control link, which reports the problem.
    return false;
  }
  impl_->write_next(to);
  return true;
}

void BulkLanes::doubt(PeerId peer, Duration silence) {
  const auto found = impl_->lanes.find(peer);
  if (found == impl_->lanes.end() || found->second.state != Impl::Lane::State::open) return;
  if (Impl::Clock::now() - found->second.heard < silence) return;
  impl_->broken(peer, found->second.connection, "nothing came and an answer is overdue");
}

void BulkLanes::forget(PeerId peer) {
  impl_->relaying.forget(peer);
  impl_->detours.erase(peer);
  impl_->moves.erase(peer);
  const auto found = impl_->lanes.find(peer);
  if (found == impl_->lanes.end()) return;
  if (found->second.connection) impl_->retired.add(found->second.connection);
  impl_->give_up(found->second);
  impl_->lanes.erase(found);
}

BulkLanes::Counters BulkLanes::counters() const {
  Counters counters = impl_->counters;
  counters.lanes_refused += impl_->doors.refused();
  counters.streams_relayed = impl_->relaying.counters().streams;
  counters.bytes_relayed = impl_->relaying.counters().bytes;
  return counters;
}

}  // namespace gv
