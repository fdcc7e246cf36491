// Lanes: invited over the control link, dialled by whoever can, then records both ways.
#include "net/bulk_lanes.hpp"

#include <sodium.h>

#include <algorithm>
#include <array>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <cstring>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "net/draining_connections.hpp"
#include "net/lane_connection.hpp"
#include "net/lane_handshake.hpp"
#include "net/wire.hpp"

namespace gv {
namespace {

using Clock = LaneConnection::Clock;

constexpr std::size_t messages_max = 64;     ///< Waiting on one lane; more go by the control link.
constexpr std::size_t transfers_max = 4096;  ///< Waiting on one lane; more are dropped.
/// From one lane and to it in one go, so that the others have their turn.
constexpr int reads_at_once = 8;
constexpr int writes_at_once = 4;
constexpr auto invite_deadline = std::chrono::seconds(5);
constexpr auto silence_max = std::chrono::seconds(1);  ///< Of a lane in doubt.
constexpr auto housekeeping_period = std::chrono::milliseconds(250);

/// A reader says that it is done with slots when so many have come together: half the ring, so that
/// the writer fills one half while the reader is in the other.
constexpr std::size_t slots_told_at_once = ring_slots / 2;
/// It says that it is done with lent blocks with whatever else it has to say; by themselves when so
/// many have come together, or so many bytes, or after a while.
constexpr std::size_t lent_told_at_once = 16;
constexpr std::size_t lent_bytes_told_at_once = 1 << 20;
/// More are never on loan at a time: 16 GiB in blocks of full length.
constexpr std::size_t holds_max = 1 << 16;

TransferId named(const RecordHeader& header) {
  return {static_cast<PeerId>(header.owner), header.session, header.number};
}

std::uint64_t random_number() {
  std::uint64_t value = 0;
  while (value == 0) randombytes_buf(&value, sizeof value);
  return value;
}

/// What is known of the way to one peer.
struct Lane {
  enum class State { none, invited, dialling, open };

  PeerId peer{};
  State state = State::none;
  std::uint64_t id = 0;
  ConnectionPtr connection;
  std::deque<Transfer> queue;
  std::deque<std::vector<std::byte>> messages;
  std::size_t slots_read = 0;       ///< Of the partner's ring, and it does not know yet.
  std::size_t lent_read = 0;        ///< Blocks it lent that we are done with, the same way,
  std::size_t lent_bytes_read = 0;  ///< and their bytes.
  bool writing = false;
  Clock::time_point progress;  ///< Last byte either way, or the invitation.
  Clock::time_point heard;     ///< Last byte that came, or when it opened.

  bool is_busy() const {
    return writing || !queue.empty() || !messages.empty() ||
           (connection && connection->reader.is_amid_record());
  }
  void reset_stream() {
    writing = false;
    slots_read = lent_read = lent_bytes_read = 0;
  }
};

}  // namespace

struct BulkLanes::Impl {
  Impl(asio::io_context& loop, Options given, Callbacks calls);
  ~Impl();

  void invite(Lane& lane);
  void answer(PeerId peer, const LaneInvite& theirs);
  void dial(PeerId peer, const LaneInvite& invite);
  void dial_failed(PeerId peer, const LaneInvite& invite);
  void accepted(std::uint64_t id, ConnectionPtr connection);
  void opened(PeerId peer, std::uint64_t id, ConnectionPtr connection);
  void refused(PeerId peer);
  void broken(PeerId peer, const ConnectionPtr& connection, const std::string& why);

  bool prepare_write(Lane& lane, bool tell);
  void write_next(PeerId peer, bool tell = false);
  void share_blocks(Lane& lane);
  void fill_socket(Lane& lane);
  void read_on(PeerId peer);
  void read_what_is_there(PeerId peer, const ConnectionPtr& connection);
  bool take(PeerId peer, const ConnectionPtr& connection, asio::error_code error, std::size_t read);
  static void count_read(Lane& lane);
  bool take_records(PeerId peer, const ConnectionPtr& connection);
  static bool is_expected(Lane& lane, const RecordHeader& header);
  bool arrived(PeerId peer, const ConnectionPtr& connection, const Record& record);
  void give_block(PeerId peer, const RecordHeader& header, std::span<const std::byte> bytes,
                  std::shared_ptr<const void> hold = nullptr);
  void housekeeping();
  bool make_room();
  LaneInvite make_invite(PeerId peer, std::uint64_t id, const LaneToken& token) const;
  Lane* current(PeerId peer, const ConnectionPtr& connection);

  asio::io_context& io;
  Options options;
  Callbacks callbacks;
  Counters counters;
  LaneHandshake doors;
  std::map<PeerId, Lane> lanes;
  std::map<PeerId, std::uint64_t> previous;  ///< The last lane that was open with a peer.
  DrainingConnections retired;
  std::shared_ptr<asio::steady_timer> timer;
  /// Handlers hold this weakly: when it is gone, so is everything they would touch.
  std::shared_ptr<int> alive = std::make_shared<int>(0);
};

BulkLanes::Impl::Impl(asio::io_context& loop, Options given, Callbacks calls)
    : io(loop),
      options(std::move(given)),
      callbacks(std::move(calls)),
      doors(
          io,
          {.listen_host = options.listen_host,
           .advertise_host = options.advertise_host,
           .port = options.port,
           .dial_from = options.dial_from,
           .local =
               options.security == Security::automatic || options.security == Security::unix_socket,
           .remote = options.security != Security::unix_socket,
           .plain = options.trusted_network && options.security != Security::tls,
           .socket_folder = options.socket_folder,
           .lent = options.lent},
          {.accepted = [this](std::uint64_t lane,
                              ConnectionPtr connection) { accepted(lane, std::move(connection)); },
           .event = callbacks.event}),
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

/// What is known of loans that nobody holds any more: the partner is told in their order.
void BulkLanes::Impl::count_read(Lane& lane) {
  std::deque<LaneConnection::Loan>& holds = lane.connection->holds;
  while (!holds.empty() && holds.front().held.expired()) {
    ++lane.lent_read;
    lane.lent_bytes_read += holds.front().bytes;
    holds.pop_front();
  }
}

/// Whether one more lane fits, if need be in place of the one that was idle longest.
bool BulkLanes::Impl::make_room() {
  // What a lane can hold: a ring each way, or a block each way.
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
  LaneToken token;
  randombytes_buf(token.data(), token.size());
  doors.expect(lane.id, token);
  if (!callbacks.send_invite(lane.peer, make_invite(lane.peer, lane.id, token))) refused(lane.peer);
}

/// The other side wants a lane, or answers our wish for one.
void BulkLanes::Impl::answer(PeerId peer, const LaneInvite& theirs) {
  auto found = lanes.find(peer);
  if (theirs.answer) {
    const bool ours = found != lanes.end() && found->second.id == theirs.lane &&
                      doors.expects(theirs.lane) && found->second.state != Lane::State::open;
    if (!ours) return;
    if (theirs.refused) {
      refused(peer);
    } else {
      // It could not dial us, so we dial it, with the token we gave it.
      dial(peer, theirs);
    }
    return;
  }
  if (found == lanes.end()) {
    if (!make_room()) {
      LaneInvite no{.lane = theirs.lane};
      no.answer = true;
      no.refused = true;
      callbacks.send_invite(peer, no);
      return;
    }
    found = lanes.emplace(peer, Lane{.peer = peer}).first;
  }
  Lane& lane = found->second;
  const bool waiting = lane.state == Lane::State::invited || lane.state == Lane::State::dialling;
  // Both may invite at once: the smaller lane number goes on, and both know both.
  if (waiting && lane.id < theirs.lane) return;
  if (waiting) doors.expect_no_more(lane.id);
  const bool lost = lane.state == Lane::State::open;
  if (lost) {
    // Sent before it heard of the lane that is open by now, or because it has lost that lane?
    if (theirs.previous != lane.id) return;
    retired.add(lane.connection);
    lane.connection.reset();
    lane.reset_stream();
  }
  lane.state = Lane::State::dialling;
  lane.id = theirs.lane;
  lane.progress = Clock::now();
  doors.expect(theirs.lane, theirs.token);
  dial(peer, theirs);
  if (!lost) return;
  callbacks.event({.name = "lane_lost",
                   .peer = peer,
                   .reason = Reason::unreachable,
                   .detail = "the partner lost it first"});
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

/// We cannot reach the other side. If it invited us and can perhaps reach us, it may try.
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

void BulkLanes::Impl::accepted(std::uint64_t id, ConnectionPtr connection) {
  const auto found =
      std::ranges::find_if(lanes, [&](const auto& item) { return item.second.id == id; });
  if (found == lanes.end()) {
    connection->close();
  } else {
    opened(found->first, id, std::move(connection));
  }
}

void BulkLanes::Impl::opened(PeerId peer, std::uint64_t id, ConnectionPtr connection) {
  doors.expect_no_more(id);
  const auto found = lanes.find(peer);
  if (found == lanes.end() || found->second.id != id || found->second.state == Lane::State::open) {
    connection->close();
    return;
  }
  Lane& lane = found->second;
  if (!connection->ring_out) connection->tune();
  asio::error_code ignored;
  connection->socket.non_blocking(true, ignored);
  lane.state = Lane::State::open;
  lane.connection = std::move(connection);
  lane.progress = lane.heard = Clock::now();
  lane.reset_stream();
  previous[peer] = id;
  ++counters.lanes_opened;
  callbacks.event({.name = "lane_opened", .peer = peer, .detail = lane.connection->kind});
  read_on(peer);
  write_next(peer);
}

void BulkLanes::Impl::refused(PeerId peer) {
  const auto found = lanes.find(peer);
  if (found == lanes.end()) return;
  doors.expect_no_more(found->second.id);
  lanes.erase(found);
  ++counters.lanes_refused;
  callbacks.event({.name = "lane_refused",
                   .peer = peer,
                   .reason = Reason::unreachable,
                   .detail = "neither side could dial the other"});
  callbacks.refused(peer);
}

Lane* BulkLanes::Impl::current(PeerId peer, const ConnectionPtr& connection) {
  const auto found = lanes.find(peer);
  return found != lanes.end() && found->second.connection == connection ? &found->second : nullptr;
}

void BulkLanes::Impl::broken(PeerId peer, const ConnectionPtr& connection, const std::string& why) {
  Lane* lane = current(peer, connection);
  if (lane == nullptr) return;
  retired.add(connection);
  lanes.erase(peer);
  callbacks.event(
      {.name = "lane_lost", .peer = peer, .reason = Reason::unreachable, .detail = why});
  callbacks.lost(peer);
}

/// Puts the records that can go through the socket now, a message or some blocks, into what is
/// written next; the bytes live as long as the connection.
void BulkLanes::Impl::fill_socket(Lane& lane) {
  LaneConnection& connection = *lane.connection;
  const auto add = [&](const RecordHeader& header, std::span<const std::byte> bytes) {
    connection.out_buffers.push_back(connection.say(header));
    connection.out_buffers.push_back(asio::buffer(bytes.data(), bytes.size()));
  };
  if (!lane.messages.empty()) {
    connection.out_message = std::move(lane.messages.front());
    lane.messages.pop_front();
    add({.length = static_cast<std::uint32_t>(connection.out_message.size()),
         .kind = RecordKind::message},
        connection.out_message);
    return;
  }
  std::size_t bytes_taken = 0;
  for (std::size_t count = 0; !lane.queue.empty() && !connection.ring_out &&
                              count < records_at_once && bytes_taken < block_bytes_max;
       ++count) {
    Transfer& transfer = lane.queue.front();
    const auto left = transfer.payload.bytes.subspan(transfer.offset);
    const auto bytes = left.first(next_block_bytes(left.size()));
    connection.out_owners.push_back(transfer.payload);
    add({.length = static_cast<std::uint32_t>(bytes.size()),
         .owner = static_cast<std::uint64_t>(transfer.id.owner),
         .session = transfer.id.session,
         .number = transfer.id.number,
         .offset = transfer.offset},
        bytes);
    bytes_taken += bytes.size();
    transfer.offset += bytes.size();
    if (bytes.size() == left.size()) lane.queue.pop_front();
  }
}

/// Lets a partner on this host have blocks through memory: those that lie in lent memory as they
/// are, of the others as many copies as have room.
void BulkLanes::Impl::share_blocks(Lane& lane) {
  LaneConnection& connection = *lane.connection;
  for (std::size_t count = 0; count < records_at_once && !lane.queue.empty(); ++count) {
    Transfer& transfer = lane.queue.front();
    const auto left = transfer.payload.bytes.subspan(transfer.offset);
    const auto bytes = left.first(std::min(left.size(), block_bytes_max));
    const auto place = options.lent ? options.lent->place_of(bytes) : std::nullopt;
    if (!place && connection.ring_out->free_slots() == 0) return;
    connection.say(RecordHeader{.length = static_cast<std::uint32_t>(bytes.size()),
                                .kind = place ? RecordKind::lent_block : RecordKind::ring_block,
                                .owner = static_cast<std::uint64_t>(transfer.id.owner),
                                .session = transfer.id.session,
                                .number = transfer.id.number,
                                .offset = transfer.offset});
    if (place) {
      connection.say(LentPlace{*place});
      connection.lent.push_back(transfer.payload);
    } else {
      connection.ring_out->put(bytes);
    }
    transfer.offset += bytes.size();
    counters.bytes_sent += bytes.size();
    if (bytes.size() == left.size()) lane.queue.pop_front();
  }
}

/// Puts together what is written next, with `tell` also what can wait for company; false where
/// there is nothing.
bool BulkLanes::Impl::prepare_write(Lane& lane, bool tell) {
  std::deque<Transfer>& queue = lane.queue;
  while (!queue.empty() && queue.front().offset >= queue.front().payload.bytes.size()) {
    queue.pop_front();
  }
  LaneConnection& connection = *lane.connection;
  count_read(lane);
  connection.out_bytes = 0;
  if (lane.slots_read >= slots_told_at_once) {
    connection.say(
        RecordHeader{.length = static_cast<std::uint32_t>(std::exchange(lane.slots_read, 0)),
                     .kind = RecordKind::ring_done});
  }
  if (connection.ring_out && lane.messages.empty()) share_blocks(lane);
  tell = tell || connection.out_bytes > 0 || !lane.messages.empty() ||
         lane.lent_read >= lent_told_at_once || lane.lent_bytes_read >= lent_bytes_told_at_once;
  if (tell && lane.lent_read > 0) {
    connection.say(
        RecordHeader{.length = static_cast<std::uint32_t>(std::exchange(lane.lent_read, 0)),
                     .kind = RecordKind::lent_done});
    lane.lent_bytes_read = 0;
  }
  connection.out_buffers.clear();
  if (connection.out_bytes > 0) {
    connection.out_buffers.push_back(asio::buffer(connection.out.data(), connection.out_bytes));
  }
  fill_socket(lane);
  return !connection.out_buffers.empty();
}

/// Writes what is there to be written; with `tell` also what can wait for company.
void BulkLanes::Impl::write_next(PeerId peer, bool tell) {
  const auto found = lanes.find(peer);
  if (found == lanes.end()) return;
  Lane& lane = found->second;
  if (lane.state != Lane::State::open || lane.writing) return;
  LaneConnection& connection = *lane.connection;
  for (int writes = 0; prepare_write(lane, tell); ++writes) {
    const std::size_t written = writes < writes_at_once ? connection.write_now() : 0;
    counters.bytes_sent += written;
    if (connection.out_buffers.empty()) {
      connection.out_owners.clear();
      lane.progress = Clock::now();
      continue;
    }
    lane.writing = true;
    connection.write(connection.out_buffers,
                     [this, peer, connection = lane.connection, weak = std::weak_ptr(alive)](
                         asio::error_code error, std::size_t written) {
                       if (weak.expired()) return;
                       counters.bytes_sent += written;
                       connection->out_owners.clear();
                       connection->out_buffers.clear();
                       Lane* same = current(peer, connection);
                       if (same == nullptr) return;
                       if (error) {
                         broken(peer, connection, error.message());
                         return;
                       }
                       same->writing = false;
                       same->progress = Clock::now();
                       write_next(peer);
                     });
    return;
  }
}

/// Waits until something is there, deals with it, and so on.
void BulkLanes::Impl::read_on(PeerId peer) {
  const ConnectionPtr& connection = lanes.at(peer).connection;
  connection->reading = true;
  if (connection->tls) {
    connection->read_some(connection->reader.own_room(),
                          [this, peer, connection, weak = std::weak_ptr(alive)](
                              asio::error_code error, std::size_t read) {
                            if (weak.expired()) return;
                            if (take(peer, connection, error, read)) read_on(peer);
                          });
  } else {
    connection->socket.async_wait(
        LaneConnection::Socket::wait_read,
        [this, peer, connection, weak = std::weak_ptr(alive)](asio::error_code) {
          if (!weak.expired()) read_what_is_there(peer, connection);
        });
  }
}

/// Straight to where it belongs. What is wrong with a socket, reading from it tells.
void BulkLanes::Impl::read_what_is_there(PeerId peer, const ConnectionPtr& connection) {
  if (current(peer, connection) == nullptr) {
    connection->reading = false;
    retired.read_ended(connection);
    return;
  }
  for (int reads = 0; reads < reads_at_once; ++reads) {
    const auto room = connection->reader.room([&](const RecordHeader& header) {
      return callbacks.place ? callbacks.place(peer, named(header), header.offset, header.length)
                             : std::span<std::byte>();
    });
    asio::error_code error;
    const std::size_t read =
        connection->socket.read_some(std::array{asio::buffer(room[0].data(), room[0].size()),
                                                asio::buffer(room[1].data(), room[1].size())},
                                     error);
    if (error == asio::error::would_block || error == asio::error::try_again) break;
    if (!take(peer, connection, error, read)) return;
    if (read < room[0].size() + room[1].size()) break;
  }
  read_on(peer);
}

/// What came, or why nothing does; false if the lane is gone afterwards.
bool BulkLanes::Impl::take(PeerId peer, const ConnectionPtr& connection, asio::error_code error,
                           std::size_t read) {
  counters.bytes_received += read;
  connection->reading = false;
  connection->partner_ended = static_cast<bool>(error);
  Lane* lane = current(peer, connection);
  if (lane == nullptr) {
    retired.read_ended(connection);
    return false;
  }
  // A partner that closes before it has read our last word resets the connection.
  const bool ended = error == asio::error::eof || error == asio::error::connection_reset;
  if (ended && !lane->is_busy()) {
    // The partner had no more use for it, or died; what we wait for on it will not come.
    retired.add(connection);
    lanes.erase(peer);
    callbacks.event({.name = "lane_closed", .peer = peer, .detail = "by the partner"});
    callbacks.lost(peer);
    return false;
  }
  if (error) {
    broken(peer, connection, error.message());
    return false;
  }
  connection->reader.came(read);
  lane->progress = lane->heard = Clock::now();
  return take_records(peer, connection);
}

/// Deals with every whole record that was read; false if the lane is gone afterwards.
bool BulkLanes::Impl::take_records(PeerId peer, const ConnectionPtr& connection) {
  while (const std::optional<Record> record = connection->reader.next()) {
    if (!arrived(peer, connection, *record)) return false;
  }
  if (connection->reader.is_malformed()) {
    broken(peer, connection, "a malformed record");
    return false;
  }
  write_next(peer);
  return true;
}

/// Whether a sound record can come now.
bool BulkLanes::Impl::is_expected(Lane& lane, const RecordHeader& header) {
  LaneConnection& connection = *lane.connection;
  switch (header.kind) {
    case RecordKind::block:
    case RecordKind::message:
      return true;
    case RecordKind::ring_block:
      return connection.ring_in && lane.slots_read < ring_slots;
    case RecordKind::ring_done:
      return connection.ring_out && connection.ring_out->release(header.length);
    case RecordKind::lent_block:
      return connection.borrowed.has_value();
    case RecordKind::lent_done:
      return header.length <= connection.lent.size();
    case RecordKind::over:
      return connection.ring_out.has_value();
  }
  return false;
}

/// A whole record is here: hands on what it carries. False if the lane is gone afterwards.
bool BulkLanes::Impl::arrived(PeerId peer, const ConnectionPtr& connection, const Record& record) {
  const auto& [header, bytes] = record;
  if (!is_expected(lanes.at(peer), header)) {
    broken(peer, connection, "a malformed record");
    return false;
  }
  switch (header.kind) {
    case RecordKind::block:
      give_block(peer, header, bytes);
      break;
    case RecordKind::ring_block:
      counters.bytes_received += header.length;
      ++lanes.at(peer).slots_read;
      give_block(peer, header, connection->ring_in->take(header.length));
      if (current(peer, connection) != nullptr) write_next(peer);  // The slot is free again.
      break;
    case RecordKind::lent_block: {
      LentPlace place = 0;
      std::memcpy(&place, bytes.data(), sizeof place);
      const auto block = connection->borrowed->at(place, header.length);
      if (!block) {
        broken(peer, connection, "a block outside of the memory that is lent");
        return false;
      }
      if (connection->holds.size() >= holds_max) {
        broken(peer, connection, "too many blocks on loan");
        return false;
      }
      counters.bytes_received += header.length;
      std::shared_ptr<const void> hold = std::make_shared<BorrowedBuffer>(*connection->borrowed);
      connection->holds.push_back({hold, header.length});
      give_block(peer, header, *block, std::move(hold));
      break;
    }
    case RecordKind::lent_done:
      connection->lent.erase(connection->lent.begin(),
                             connection->lent.begin() + static_cast<std::ptrdiff_t>(header.length));
      break;
    case RecordKind::ring_done:
      break;
    case RecordKind::over:
      broken(peer, connection, "the partner ended it");
      return false;
    case RecordKind::message: {
      Decoded decoded = decode(bytes);
      const auto* message = decoded.frame ? std::get_if<Message>(&*decoded.frame) : nullptr;
      if (message == nullptr) {
        broken(peer, connection, decoded.frame ? "a frame that is no message" : decoded.problem);
        return false;
      }
      callbacks.message({peer, *message});
      break;
    }
  }
  return current(peer, connection) != nullptr;
}

void BulkLanes::Impl::give_block(PeerId peer, const RecordHeader& header,
                                 std::span<const std::byte> bytes,
                                 std::shared_ptr<const void> hold) {
  callbacks.block(
      peer,
      Block{.id = named(header), .offset = header.offset, .bytes = bytes, .hold = std::move(hold)});
}

void BulkLanes::Impl::housekeeping() {
  const auto now = Clock::now();
  std::vector<PeerId> unanswered;
  std::vector<std::pair<PeerId, ConnectionPtr>> stuck;
  std::vector<PeerId> read_all;
  for (auto lane = lanes.begin(); lane != lanes.end();) {
    Lane& own = lane->second;
    if (own.state != Lane::State::open) {
      if (now - own.progress > invite_deadline) unanswered.push_back(lane->first);
    } else if (own.is_busy() && now - own.progress > options.progress_deadline) {
      stuck.emplace_back(lane->first, own.connection);
    } else if (!own.is_busy() && now - own.progress > options.idle_close) {
      retired.add(own.connection);
      lane = lanes.erase(lane);
      continue;
    } else if (own.lent_read > 0 || !own.connection->holds.empty()) {
      read_all.push_back(lane->first);
    }
    ++lane;
  }
  retired.tidy_up();
  for (const PeerId peer : unanswered) refused(peer);
  for (const auto& [peer, connection] : stuck) broken(peer, connection, "no progress");
  for (const PeerId peer : read_all) write_next(peer, true);
  doors.tidy_up();
  timer->expires_after(housekeeping_period);
  timer->async_wait([this, weak = std::weak_ptr(alive)](asio::error_code error) {
    if (!error && !weak.expired()) housekeeping();
  });
}

BulkLanes::BulkLanes(asio::io_context& io, Options options, Callbacks callbacks)
    : impl_(std::make_unique<Impl>(io, std::move(options), std::move(callbacks))) {}

BulkLanes::~BulkLanes() = default;

const std::string& BulkLanes::listening() const { return impl_->doors.listening(); }

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
    found = impl_->lanes.emplace(peer, Lane{.peer = peer}).first;
  }
  Lane& lane = found->second;
  std::erase_if(lane.queue, [&](const Transfer& old) { return old.id == transfer.id; });
  impl_->counters.superseded +=
      std::erase_if(lane.queue, [&](const Transfer& old) { return supersedes(transfer, old); });
  if (lane.queue.size() < transfers_max) lane.queue.push_back(std::move(transfer));
  if (lane.state == Lane::State::none) {
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
  if (found == impl_->lanes.end() || found->second.state != Lane::State::open ||
      found->second.messages.size() >= messages_max) {
    return false;
  }
  try {
    found->second.messages.push_back(encode(message));
  } catch (const std::exception&) {
    // The control link says what is wrong with it.
    return false;
  }
  impl_->write_next(to);
  return true;
}

void BulkLanes::doubt(PeerId peer) {
  const auto found = impl_->lanes.find(peer);
  if (found == impl_->lanes.end() || found->second.state != Lane::State::open) return;
  if (Clock::now() - found->second.heard < silence_max) return;
  impl_->broken(peer, found->second.connection, "nothing came and an answer is overdue");
}

void BulkLanes::forget(PeerId peer) {
  const auto found = impl_->lanes.find(peer);
  if (found == impl_->lanes.end()) return;
  if (found->second.connection) impl_->retired.add(found->second.connection);
  impl_->doors.expect_no_more(found->second.id);
  impl_->lanes.erase(found);
}

BulkLanes::Counters BulkLanes::counters() const {
  Counters counters = impl_->counters;
  counters.lanes_refused += impl_->doors.refused();
  return counters;
}

}  // namespace gv
