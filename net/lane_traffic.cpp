// Sends records on an open lane, and handles those that arrive.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "net/bulk_lanes_impl.hpp"
#include "net/steady_time.hpp"
#include "net/wire.hpp"

namespace gv {
namespace {

/// The most reads and writes of one lane in one turn of the loop, so that other lanes get their
/// turn.
constexpr int reads_at_once = 8;
constexpr int writes_at_once = 4;

/// Number of slots that a reader reads before it reports them. This is half the ring, so that the
/// writer can fill one half while the reader reads the other.
constexpr std::size_t slots_told_at_once = ring_slots / 2;
/// Reports about blocks read in a shared buffer wait for other records. They are sent alone after
/// this many blocks or bytes, or at the next housekeeping.
constexpr std::size_t lent_told_at_once = 16;
constexpr std::size_t lent_bytes_told_at_once = 1 << 20;
/// Most blocks of a shared buffer that may be unreported: 16 GiB in blocks of full length.
constexpr std::size_t holds_max = 1 << 16;

TransferId named(const RecordHeader& header) {
  return {.owner = static_cast<PeerId>(header.owner),
          .session = header.session,
          .number = header.number,
          .kind = header.transfer,
          .stage = header.stage};
}

}  // namespace

/// Counts the blocks of the partner's shared buffer that we no longer hold. Stops at the first
/// block that is still held, because the partner must learn of them in order.
void BulkLanes::Impl::count_read(Lane& lane) {
  std::deque<LaneConnection::Loan>& holds = lane.connection->holds;
  while (!holds.empty() && holds.front().held.expired()) {
    ++lane.lent_read;
    lane.lent_bytes_read += holds.front().bytes;
    holds.pop_front();
  }
}

/// Prepares the next write over the socket: a message or some blocks. The connection keeps the
/// bytes until they are written.
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
         .offset = transfer.offset,
         .stage = transfer.id.stage,
         .transfer = transfer.id.kind},
        bytes);
    bytes_taken += bytes.size();
    transfer.offset += bytes.size();
    const bool can_wait = transfer.can_wait;
    if (bytes.size() == left.size()) lane.queue.pop_front();
    if (can_wait) return;  // No later message can overtake bytes that are already written.
  }
}

/// Prepares blocks for a partner on this host. Blocks in the shared buffer are sent without a copy;
/// others are copied while the ring has free slots.
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
                                .offset = transfer.offset,
                                .stage = transfer.id.stage,
                                .transfer = transfer.id.kind});
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

/// Prepares the next write. With `tell`, includes reports that could wait for other records.
/// Returns false if there is nothing to write.
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

/// Writes everything that is ready; with `tell`, also reports that could wait for other records.
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

/// Waits for input, handles it, and starts over.
void BulkLanes::Impl::read_on(PeerId peer) {
  const ConnectionPtr& connection = lanes.at(peer).connection;
  connection->reading = true;
  if (connection->tls) {
    connection->read_some(connection->reader.own_room(),
                          [this, peer, connection, weak = std::weak_ptr(alive)](
                              asio::error_code error, std::size_t read) {
                            if (weak.expired()) return;
                            heed(peer, connection, [&] {
                              if (take(peer, connection, error, read)) read_on(peer);
                            });
                          });
  } else {
    connection->socket.async_wait(
        LaneConnection::Socket::wait_read,
        [this, peer, connection, weak = std::weak_ptr(alive)](asio::error_code) {
          if (weak.expired()) return;
          heed(peer, connection, [&] { read_what_is_there(peer, connection); });
        });
  }
}

/// Reads bytes straight into their final memory. Errors of the socket appear at the next read.
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

/// Handles received bytes, or the end of the stream. Returns false if the lane is gone afterwards.
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
  // A partner that closes the lane before it has read our last record resets the connection.
  const bool ended = error == asio::error::eof || error == asio::error::connection_reset;
  if (ended && !lane->is_busy()) {
    // The partner had no more use for the lane, or died. Data that we still wait for will not come.
    retired.add(connection);
    lanes.erase(peer);
    callbacks.fact(LaneClosed{.peer = peer});
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

/// Handles every complete record that was read. Returns false if the lane is gone afterwards.
bool BulkLanes::Impl::take_records(PeerId peer, const ConnectionPtr& connection) {
  while (const std::optional<Record> record = connection->reader.next()) {
    if (!arrived(peer, connection, *record)) return false;
  }
  if (connection->reader.is_malformed()) {
    unsound(peer, connection, "a malformed record");
    return false;
  }
  write_next(peer);
  return true;
}

/// Returns true if a record with this header is valid now.
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

/// Passes on the content of a complete record. Returns false if the lane is gone afterwards.
bool BulkLanes::Impl::arrived(PeerId peer, const ConnectionPtr& connection, const Record& record) {
  const auto& [header, bytes] = record;
  if (!is_expected(lanes.at(peer), header)) {
    unsound(peer, connection, "a malformed record");
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
        unsound(peer, connection, "a block outside of the memory that is lent");
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
    case RecordKind::message:
      return take_message(peer, connection, bytes);
  }
  return current(peer, connection) != nullptr;
}

/// Passes on a message. Lanes have the same message limit as links, because peers could otherwise
/// bypass that limit. Returns false if the lane is gone afterwards.
bool BulkLanes::Impl::take_message(PeerId peer, const ConnectionPtr& connection,
                                   std::span<const std::byte> bytes) {
  const auto budget = budgets.try_emplace(peer, options.messages).first;
  if (!budget->second.take(steady_time())) {
    budgets.erase(budget);
    unsound(peer, connection, "a flood of messages");
    return false;
  }
  Decoded decoded = decode(bytes);
  auto* message = decoded.frame ? std::get_if<Message>(&*decoded.frame) : nullptr;
  if (message == nullptr) {
    unsound(peer, connection, decoded.frame ? "a frame that is no message" : decoded.problem);
    return false;
  }
  callbacks.message({peer, std::move(*message)});
  return current(peer, connection) != nullptr;
}

/// Ends a lane because of bytes that no correct peer sends.
void BulkLanes::Impl::unsound(PeerId peer, const ConnectionPtr& connection,
                              const std::string& why) {
  broken(peer, connection, why);
  if (callbacks.unsound) callbacks.unsound(peer, why);
}

void BulkLanes::Impl::give_block(PeerId peer, const RecordHeader& header,
                                 std::span<const std::byte> bytes,
                                 std::shared_ptr<const void> hold) {
  callbacks.block(
      peer,
      Block{.id = named(header), .offset = header.offset, .bytes = bytes, .hold = std::move(hold)});
}

}  // namespace gv
