// Listens in place of peers, and owns the forwarded connections.
#include "sim/local/fault_proxy.hpp"

#include <asio/steady_timer.hpp>
#include <chrono>
#include <set>
#include <utility>
#include <vector>

#include "sim/local/link_pace.hpp"
#include "sim/local/proxied_connection.hpp"

namespace gv {
namespace {

using asio::ip::tcp;

constexpr auto accept_pause = std::chrono::milliseconds(100);

}  // namespace

struct FaultProxy::Impl : std::enable_shared_from_this<FaultProxy::Impl> {
  struct Door {
    explicit Door(asio::io_context& io) : acceptor(io), pause(io) {}
    tcp::acceptor acceptor;
    asio::steady_timer pause;
    std::size_t to = 0;
    tcp::endpoint back;
  };

  Impl(asio::io_context& loop, Options given, StateOf state_of)
      : io(loop),
        options(std::move(given)),
        world{.now =
                  [this] {
                    return Time(std::chrono::duration_cast<Duration>(
                        std::chrono::steady_clock::now() - began));
                  },
              .state_of = std::move(state_of),
              .closed =
                  [this](const std::shared_ptr<ProxiedConnection>& connection) {
                    connections.erase(connection);
                  },
              .counters = counters,
              .held_bytes_max = options.held_bytes_max} {}

  void accept(const std::shared_ptr<Door>& door) {
    door->acceptor.async_accept(
        [self = shared_from_this(), door](asio::error_code error, tcp::socket socket) {
          if (error == asio::error::operation_aborted || !door->acceptor.is_open()) return;
          if (error) {
            // We have probably run out of descriptors. Accepting again at once would start a busy
            // loop.
            door->pause.expires_after(accept_pause);
            door->pause.async_wait([self, door](asio::error_code cancelled) {
              if (!cancelled) self->accept(door);
            });
            return;
          }
          self->welcome(*door, std::move(socket));
          self->accept(door);
        });
  }

  void welcome(const Door& door, tcp::socket socket) {
    asio::error_code error;
    const tcp::endpoint dialler = socket.remote_endpoint(error);
    const auto source = options.sources.find(dialler.address());
    if (error || source == options.sources.end()) {
      ++counters.refused;
      return;
    }
    ++counters.connections;
    const std::size_t from = source->second;
    const auto connection =
        std::make_shared<ProxiedConnection>(io, world, std::move(socket), from, door.to, door.back,
                                            pace(from, door.to), pace(door.to, from));
    connections.insert(connection);
    connection->start();
  }

  LinkPace& pace(std::size_t from, std::size_t to) {
    const Rng rng = options.rng.fork(from).fork(to);
    return paces.try_emplace({from, to}, rng).first->second;
  }

  asio::io_context& io;
  Options options;
  std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
  Counters counters;
  std::map<std::pair<std::size_t, std::size_t>, LinkPace> paces;
  ProxiedConnection::World world;
  std::vector<std::shared_ptr<Door>> doors;
  std::set<std::shared_ptr<ProxiedConnection>> connections;
};

FaultProxy::FaultProxy(asio::io_context& io, Options options, StateOf state_of)
    : impl_(std::make_shared<Impl>(io, std::move(options), std::move(state_of))) {}

FaultProxy::~FaultProxy() {
  asio::error_code ignored;
  for (const auto& door : impl_->doors) {
    door->acceptor.close(ignored);
    door->pause.cancel();
  }
  const auto open = impl_->connections;
  for (const auto& connection : open) connection->close();
}

std::uint16_t FaultProxy::forward(std::size_t to, const tcp::endpoint& front,
                                  const tcp::endpoint& back) {
  auto door = std::make_shared<Impl::Door>(impl_->io);
  door->to = to;
  door->back = back;
  door->acceptor.open(front.protocol());
  door->acceptor.set_option(asio::socket_base::reuse_address(true));
  door->acceptor.bind(front);
  door->acceptor.listen();
  impl_->doors.push_back(door);
  impl_->accept(door);
  return door->acceptor.local_endpoint().port();
}

void FaultProxy::refresh() {
  const auto open = impl_->connections;
  for (const auto& connection : open) connection->refresh();
}

const FaultProxy::Counters& FaultProxy::counters() const { return impl_->counters; }

std::size_t FaultProxy::open_connections() const { return impl_->connections.size(); }

std::size_t FaultProxy::bytes_waiting() const {
  std::size_t bytes = 0;
  for (const auto& connection : impl_->connections) bytes += connection->bytes_waiting();
  return bytes;
}

}  // namespace gv
