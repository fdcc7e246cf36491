// The accept loop, and the pauses that bound its cost.
#include "net/lane_listener.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <string>
#include <utility>

#include "net/connection_source.hpp"
#include "net/steady_time.hpp"

namespace gv {
namespace {

/// Most connections accepted in one turn, so that other events get their turn.
constexpr int accepted_at_once = 16;
/// After a full batch, accepting pauses for this many times the processor time that the batch took.
constexpr int pause_factor = 9;
constexpr Duration flood_pause_max = std::chrono::milliseconds(5);
/// Time between two batches while no partner is expected.
constexpr Duration unexpected_pause = std::chrono::milliseconds(100);
/// Number of connections that the system queues for us while no partner is expected. The system
/// drops the first packets of any others, so an attacker's own system waits before it tries again.
constexpr int unexpected_queue = 64;
/// Pause after a failed accept. Most likely, no descriptors are left, and accepting again at once
/// would be a busy loop.
constexpr Duration error_pause = std::chrono::milliseconds(100);

/// The processor time that this thread has used.
Duration processor_time() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

/// Closes with a reset, so that the system keeps no TIME_WAIT state. LaneConnection::close() would
/// first end the connection in the usual way, which takes a stranger one more packet to answer.
void reset(LaneConnection& connection) {
  asio::error_code ignored;
  connection.socket.set_option(asio::socket_base::linger(true, 0), ignored);
  connection.socket.close(ignored);
}

/// True if the other end has closed the connection without having sent anything. The system holds
/// silent connections back, but hands each one over when it is closed.
bool has_ended_silently(const Descriptor& connection) {
  char byte = 0;
  return ::recv(connection.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

}  // namespace

LaneListener::LaneListener(asio::io_context& io, Descriptor listening, Options options,
                           Newcomer newcomer)
    : io_(io),
      listening_(io, listening.release()),
      options_(options),
      newcomer_(std::move(newcomer)),
      places_(options.places),
      pause_(io) {
  ::listen(listening_.native_handle(), unexpected_queue);
  wait();
}

LaneListener::~LaneListener() {
  alive_.reset();
  for (const auto& [id, stranger] : strangers_) stranger->close();
  // Children made by fork() have copies of the descriptor, which would keep the port.
  ::shutdown(listening_.native_handle(), SHUT_RDWR);
}

void LaneListener::set_expecting(bool expecting) {
  if (is_expecting_ == expecting) return;
  is_expecting_ = expecting;
  // On a socket that already listens, this call only changes the length of the queue.
  ::listen(listening_.native_handle(), expecting ? SOMAXCONN : unexpected_queue);
  if (expecting && pause_.cancel() > 0) wait();
}

void LaneListener::wait() {
  listening_.async_wait(asio::posix::stream_descriptor::wait_read,
                        [this, weak = std::weak_ptr(alive_)](asio::error_code error) {
                          if (!weak.expired() && !error) accept_some();
                        });
}

void LaneListener::wait_for(Duration pause) {
  pause_.expires_after(pause);
  pause_.async_wait([this, weak = std::weak_ptr(alive_)](asio::error_code error) {
    if (!weak.expired() && !error) wait();
  });
}

void LaneListener::accept_some() {
  const Duration before = processor_time();
  const Time now = steady_time();  // The same time for all connections of this turn.
  for (int count = 0; count < accepted_at_once; ++count) {
    sockaddr_storage from{};
    socklen_t length = sizeof from;
    Descriptor accepted(::accept4(listening_.native_handle(), reinterpret_cast<sockaddr*>(&from),
                                  &length, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (accepted && has_ended_silently(accepted)) {
      ++refused_;
    } else if (accepted) {
      enter(now, std::move(accepted), source_of(from), from.ss_family);
    } else if (errno == EAGAIN) {
      if (is_expecting_) {
        wait();
      } else {
        wait_for(unexpected_pause);
      }
      return;
    } else if (errno != ECONNABORTED && errno != EINTR) {
      wait_for(error_pause);
      return;
    }
  }
  const Duration needed = std::min(flood_pause_max, pause_factor * (processor_time() - before));
  wait_for(is_expecting_ ? needed : unexpected_pause);
}

void LaneListener::enter(Time now, Descriptor accepted, const std::string& source, int family) {
  LaneConnection::Socket socket(io_);
  asio::error_code error;
  const int descriptor = accepted.release();
  socket.assign({family, family == AF_UNIX ? 0 : IPPROTO_TCP}, descriptor, error);
  if (error) {
    const Descriptor closed(descriptor);
    return;
  }
  auto connection = std::make_shared<LaneConnection>(std::move(socket));
  const ProvingPlaces::Id id = id_of(*connection);
  strangers_.emplace(id, connection);
  if (const auto gone = places_.enter(now, id, source)) end(*gone);
  if (holds(connection)) newcomer_(connection);
}

void LaneListener::end(ProvingPlaces::Id id) {
  const auto found = strangers_.find(id);
  if (found == strangers_.end()) return;
  ++refused_;
  reset(*found->second);
  places_.leave(id);
  strangers_.erase(found);
}

void LaneListener::keep(const LaneConnection& connection) { places_.keep(id_of(connection)); }

void LaneListener::release(const ConnectionPtr& connection) {
  places_.leave(id_of(*connection));
  strangers_.erase(id_of(*connection));
}

void LaneListener::send_away(const ConnectionPtr& connection) { end(id_of(*connection)); }

bool LaneListener::holds(const ConnectionPtr& connection) const {
  return strangers_.contains(id_of(*connection));
}

ConnectionPtr LaneListener::find(const std::function<bool(LaneConnection&)>& is_it) const {
  const auto found =
      std::ranges::find_if(strangers_, [&](const auto& entry) { return is_it(*entry.second); });
  return found == strangers_.end() ? nullptr : found->second;
}

void LaneListener::tidy_up() {
  for (const ProvingPlaces::Id id : places_.older_than(steady_time() - options_.proof_deadline)) {
    end(id);
  }
}

}  // namespace gv
