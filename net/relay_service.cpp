// Streams between two sockets, with one buffer in each direction.
#include "net/relay_service.hpp"

#include <sodium.h>

#include <algorithm>
#include <asio/buffer.hpp>
#include <asio/write.hpp>
#include <vector>

#include "net/steady_time.hpp"

namespace gv {
namespace {

constexpr std::size_t relayed_at_once = std::size_t{64} * 1024;

}  // namespace

/// A stream between two ends, which are in the order of their ids.
struct RelayService::Stream {
  struct End {
    explicit End(asio::io_context& io) : timer(io) {}

    std::uint64_t lane = 0;
    ConnectionPtr connection;
    std::array<std::byte, relayed_at_once> bytes;  ///< Bytes from this end to the other.
    asio::steady_timer timer;
  };

  Stream(asio::io_context& io, double bytes_per_second)
      : ends{End(io), End(io)}, budget(bytes_per_second) {}

  Pair pair;
  PeerId asker{};
  std::array<End, 2> ends;
  ByteBudget budget;
  Clock::time_point moved = Clock::now();
  bool is_over = false;

  bool is_open() const { return ends[0].connection && ends[1].connection; }
};

Duration ByteBudget::charge(Time now, std::size_t bytes) {
  const Time full = now - std::chrono::seconds(1);
  paid_until_ =
      std::max(paid_until_, full) + from_seconds(static_cast<double>(bytes) / bytes_per_second_);
  return std::max(paid_until_ - now, Duration{});
}

RelayService::RelayService(asio::io_context& io, Options options, LaneHandshake& doors, Send send)
    : io_(io),
      options_(options),
      doors_(doors),
      send_(std::move(send)),
      budget_(options.bytes_per_second) {}

RelayService::~RelayService() {
  alive_.reset();
  while (!streams_.empty()) end(StreamPtr(streams_.begin()->second));
}

void RelayService::asked(PeerId from, PeerId other) {
  if (from == other) return;
  if (!asks_.try_emplace(from, options_.asks).first->second.take(steady_time())) {
    send_(from, {.kind = RelayStep::Kind::refuse, .other = other});
    return;
  }
  const Pair pair = std::minmax(from, other);
  if (const auto before = streams_.find(pair); before != streams_.end()) {
    const StreamPtr stream = before->second;
    // Both ends may ask at once. Both then dial for the stream that was requested first.
    if (!stream->is_open() && stream->asker != from) return;
    end(stream);
  }
  const auto by_asker = std::ranges::count_if(
      streams_, [from](const auto& item) { return item.second->asker == from; });
  auto stream = std::make_shared<Stream>(io_, options_.pair_bytes_per_second);
  std::uint64_t number = 0;
  randombytes_buf(&number, sizeof number);
  const auto offer = [&](std::size_t at, PeerId to, PeerId its_other) {
    RelayStep step{.kind = RelayStep::Kind::offer,
                   .other = its_other,
                   .stream = number,
                   .token = {},
                   .address = doors_.advertised()};
    randombytes_buf(step.token.data(), step.token.size());
    const std::uint64_t lane = relay_lane(number, to, its_other);
    if (!doors_.expect(lane, step.token, LaneHandshake::Use::relay, to)) return false;
    stream->ends[at].lane = lane;
    return send_(to, step);
  };
  stream->pair = pair;
  stream->asker = from;
  const bool has_room = !doors_.advertised().empty() && streams_.size() < options_.streams_max &&
                        by_asker < static_cast<std::ptrdiff_t>(options_.streams_of_peer_max);
  // The offer goes to the other peer first, because without that peer there is nothing to relay.
  const std::size_t at = pair.first == from ? 0 : 1;
  if (!has_room || !offer(1 - at, other, from)) {
    for (const Stream::End& each : stream->ends) doors_.expect_no_more(each.lane);
    send_(from, {.kind = RelayStep::Kind::refuse, .other = other});
    return;
  }
  streams_.emplace(pair, stream);
  if (!offer(at, from, other)) end(stream);
}

void RelayService::refused(PeerId from, PeerId other) {
  const auto found = streams_.find(std::minmax(from, other));
  if (found != streams_.end() && !found->second->is_open()) end(StreamPtr(found->second));
}

bool RelayService::accepted(const LaneHandshake::Proved& proved, const ConnectionPtr& connection) {
  for (const auto& [pair, found] : streams_) {
    const StreamPtr stream = found;
    for (std::size_t at = 0; at < stream->ends.size(); ++at) {
      Stream::End& end = stream->ends[at];
      const PeerId peer = at == 0 ? pair.first : pair.second;
      if (end.lane != proved.lane || peer != proved.peer || end.connection) continue;
      end.connection = connection;
      doors_.expect_no_more(proved.lane);
      stream->moved = Clock::now();
      connection->tune();
      asio::error_code ignored;
      connection->socket.non_blocking(true, ignored);
      if (stream->is_open()) {
        pump(stream, 0);
        pump(stream, 1);
      }
      return true;
    }
  }
  return false;
}

/// Reads the bytes of one end and passes them to the other.
void RelayService::pump(const StreamPtr& stream, std::size_t from) {
  Stream::End& end_of = stream->ends[from];
  end_of.connection->socket.async_read_some(
      asio::buffer(end_of.bytes),
      [this, stream, from, weak = std::weak_ptr(alive_)](asio::error_code error, std::size_t read) {
        if (weak.expired() || stream->is_over) return;
        if (error) {
          end(stream);
        } else {
          pass_on(stream, from, read);
        }
      });
}

void RelayService::pass_on(const StreamPtr& stream, std::size_t from, std::size_t bytes) {
  asio::async_write(
      stream->ends[1 - from].connection->socket, asio::buffer(stream->ends[from].bytes, bytes),
      [this, stream, from, weak = std::weak_ptr(alive_)](asio::error_code error,
                                                         std::size_t written) {
        if (weak.expired() || stream->is_over) return;
        if (error) {
          end(stream);
          return;
        }
        bytes_ += written;
        stream->moved = Clock::now();
        // Nothing is read during this pause, so TCP slows the sender down.
        const Duration pause = std::max(stream->budget.charge(steady_time(), written),
                                        budget_.charge(steady_time(), written));
        if (pause == Duration{}) {
          pump(stream, from);
          return;
        }
        stream->ends[from].timer.expires_after(pause);
        stream->ends[from].timer.async_wait([this, stream, from, weak](asio::error_code stopped) {
          if (!stopped && !weak.expired() && !stream->is_over) pump(stream, from);
        });
      });
}

void RelayService::end(const StreamPtr& stream) {
  if (stream->is_over) return;
  stream->is_over = true;
  for (Stream::End& each : stream->ends) {
    doors_.expect_no_more(each.lane);
    each.timer.cancel();
    if (each.connection) each.connection->close();
  }
  streams_.erase(stream->pair);
}

void RelayService::forget(PeerId peer) {
  std::vector<StreamPtr> gone;
  for (const auto& [pair, stream] : streams_) {
    if (pair.first == peer || pair.second == peer) gone.push_back(stream);
  }
  for (const StreamPtr& stream : gone) end(stream);
}

void RelayService::tidy_up() {
  std::erase_if(asks_, [](const auto& item) { return item.second.is_full(steady_time()); });
  const auto now = Clock::now();
  std::vector<StreamPtr> late;
  for (const auto& [pair, stream] : streams_) {
    const Duration patience = stream->is_open() ? options_.idle_close : options_.patience;
    if (now - stream->moved > patience) late.push_back(stream);
  }
  for (const StreamPtr& stream : late) end(stream);
}

RelayService::Counters RelayService::counters() const {
  const auto open =
      std::ranges::count_if(streams_, [](const auto& item) { return item.second->is_open(); });
  return {.streams = static_cast<std::size_t>(open), .bytes = bytes_};
}

}  // namespace gv
