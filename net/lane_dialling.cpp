// Dials invited lanes, each within a deadline.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <asio/ip/address.hpp>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

#include "net/descriptor.hpp"
#include "net/host_address.hpp"
#include "net/lane_handshake_impl.hpp"
#include "net/socket_address.hpp"

namespace gv {
namespace {

using asio::ip::tcp;

/// Time limit of a dial, for all its addresses and the proofs together.
constexpr auto dial_deadline = std::chrono::seconds(3);
constexpr std::size_t dials_max = 64;
constexpr std::size_t socket_name_max = 64;  ///< The names that we give have at most 26 bytes.

/// Returns true if a path can be a peer's lane socket: its name has the form that LaneHandshake
/// uses, and it lies in a folder that only our own user can enter. An invitation must not make us
/// dial another program's socket.
bool is_lane_socket(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  const bool is_name =
      name.starts_with("lane-") && name.find_first_not_of("0123456789-", 5) == std::string::npos;
  struct stat socket {};
  struct stat folder {};
  if (name.size() > socket_name_max || !path.is_absolute() || !is_name ||
      ::lstat(path.c_str(), &socket) != 0 || ::stat(path.parent_path().c_str(), &folder) != 0) {
    return false;
  }
  const ::uid_t user = ::geteuid();
  const bool is_ours = user == 0 || (socket.st_uid == user && folder.st_uid == user);
  return S_ISSOCK(socket.st_mode) && is_ours && (folder.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

}  // namespace

bool LaneHandshake::Impl::is_current(const DialPtr& dial) const {
  const auto found = dials.find(dial->invite.lane);
  return found != dials.end() && found->second == dial;
}

/// Ends a dial. Passes the connection to the dial's owner, or null if nothing was proved.
void LaneHandshake::Impl::finish(const DialPtr& dial, bool proved) {
  if (!is_current(dial)) return;
  ConnectionPtr connection = std::move(dial->connection);
  if (!proved && connection) connection->close();
  const Dialled done = std::move(dial->done);
  end_dial(dial->invite.lane);
  done(proved ? std::move(connection) : nullptr);
}

/// Abandons a dial without notifying its owner.
void LaneHandshake::Impl::end_dial(std::uint64_t lane) {
  const auto found = dials.find(lane);
  if (found == dials.end()) return;
  const DialPtr dial = found->second;
  dials.erase(found);
  asio::error_code ignored;
  dial->unix_socket.close(ignored);
  dial->tcp_socket.close(ignored);
  if (dial->connection) dial->connection->close();
  update_listeners();
}

void LaneHandshake::Impl::end_late_dials() {
  const auto now = Clock::now();
  std::vector<DialPtr> late;
  for (const auto& [lane, dial] : dials) {
    if (now > dial->until) late.push_back(dial);
  }
  for (const DialPtr& dial : late) {
    ++dials_failed;
    finish(dial, false);
  }
}

void LaneHandshake::Impl::dial_unix(const DialPtr& dial) {
  const std::filesystem::path path(dial->invite.unix_path);
  const Descriptor folder(is_lane_socket(path)
                              ? ::open(path.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)
                              : -1);
  if (!folder) {
    dial_tcp(dial);
    return;
  }
  // The system resolves the path immediately, so the folder need not stay open.
  dial->unix_socket.async_connect(
      stream_protocol::endpoint(socket_address(folder, path.filename().string())),
      [this, dial, weak = std::weak_ptr(alive)](asio::error_code error) {
        if (weak.expired() || !is_current(dial)) return;
        if (error) {
          dial_tcp(dial);
          return;
        }
        dial->connection = std::make_shared<LaneConnection>(Socket(std::move(dial->unix_socket)));
        prove_plain(dial, true);
      });
}

void LaneHandshake::Impl::dial_tcp(const DialPtr& dial) {
  const std::string host = host_of(dial->invite.address);
  const std::uint16_t port = port_number_of(dial->invite.address);
  if (port == 0 || !options.remote) {
    finish(dial, false);
    return;
  }
  asio::error_code no_number;
  const auto number = asio::ip::make_address(host, no_number);
  if (!no_number) {
    dial->addresses = tcp::resolver::results_type::create(tcp::endpoint(number, port), host, {});
    dial->next = dial->addresses.begin();
    connect(dial);
    return;
  }
  // The name of a dial that has ended is not looked up, because `dials` alone keeps a dial.
  lookup.look_up({.host = host, .port = std::to_string(port)}, dial,
                 [this, asker = std::weak_ptr(dial)](const AddressLookup::Addresses& found) {
                   const DialPtr waiting = asker.lock();
                   if (!waiting || !is_current(waiting)) return;
                   waiting->addresses = found;
                   waiting->next = waiting->addresses.begin();
                   connect(waiting);
                 });
}

/// Tries one address after another.
void LaneHandshake::Impl::connect(const DialPtr& dial) {
  while (dial->next != dial->addresses.end()) {
    const tcp::endpoint address = dial->next++->endpoint();
    tcp::socket& socket = dial->tcp_socket = tcp::socket(io);
    asio::error_code error;
    socket.open(address.protocol(), error);
    if (!error && source) socket.bind(*source, error);
    if (error) continue;
    begin_unpaced(socket.native_handle());
    socket.async_connect(
        address, [this, dial, weak = std::weak_ptr(alive)](asio::error_code failed) {
          if (weak.expired() || !is_current(dial)) return;
          if (failed) {
            connect(dial);
            return;
          }
          dial->connection = std::make_shared<LaneConnection>(Socket(std::move(dial->tcp_socket)));
          if (goes_plain(dial->invite.lane)) {
            prove_plain(dial, false);
          } else {
            prove_tls(dial);
          }
        });
    return;
  }
  finish(dial, false);
}

void LaneHandshake::Impl::prove_tls(const DialPtr& dial) {
  LaneConnection& connection = *dial->connection;
  connection.kind = "tls";
  connection.tls.emplace(connection.socket, tls.context());
  tls.offer(connection.tls->native_handle(), dial->invite.lane);
  connection.tls->async_handshake(
      asio::ssl::stream_base::client,
      // The handler keeps the connection alive, because the dial may drop it during the handshake.
      [this, dial, connection = dial->connection,
       weak = std::weak_ptr(alive)](asio::error_code error) {
        if (weak.expired()) return;
        finish(dial, !error && LaneTls::is_mutual(connection->tls->native_handle()));
      });
}

/// Makes a lane out of a connection to the other peer through a relay. To both ends, the relay is
/// only part of the network: they trust no bytes until TLS has proved the token.
void LaneHandshake::Impl::secure(ConnectionPtr connection, const Proved& wanted, bool is_client,
                                 Dialled done) {
  const std::uint64_t lane = wanted.lane;
  end_dial(lane);
  auto dial = std::make_shared<Dial>(io);
  dial->invite.lane = lane;
  dial->connection = connection;
  dial->done = std::move(done);
  dial->until = Clock::now() + dial_deadline;
  dials[lane] = dial;
  connection->kind = "relayed";
  connection->tls.emplace(connection->socket, tls.context());
  if (is_client) tls.offer(connection->tls->native_handle(), lane);
  connection->tls->async_handshake(
      is_client ? asio::ssl::stream_base::client : asio::ssl::stream_base::server,
      [this, dial, connection, wanted, weak = std::weak_ptr(alive)](asio::error_code error) {
        if (weak.expired()) return;
        SSL* ssl = connection->tls->native_handle();
        finish(dial, !error && LaneTls::is_mutual(ssl) && LaneTls::lane_of(ssl) == wanted.lane &&
                         is_expected(wanted));
      });
}

void LaneHandshake::Impl::prove_plain(const DialPtr& dial, bool at_home) {
  const ConnectionPtr connection = dial->connection;
  connection->kind = at_home ? "unix" : "plain";
  if (at_home) connection->ring_out = RingWriter::make();
  auto arriving = std::make_shared<ArrivingProof>();
  const auto judged = [this, dial, connection, arriving, at_home](bool holds) {
    if (!is_current(dial)) return;
    const bool complete = !at_home || (holds && take_memory(*connection, arriving->descriptors));
    const bool proved = holds && complete && arriving->proof.lane == dial->invite.lane;
    if (proved || !at_home) {
      finish(dial, proved);
      return;
    }
    connection->close();
    dial->connection.reset();
    dial_tcp(dial);
  };
  const std::uint64_t lane = dial->invite.lane;
  const auto token = token_of(lane);
  const bool complete = token && (!at_home || connection->ring_out);
  if (complete && send_proof(*connection, *token, lane, true, options.lent.get())) {
    await_proof(connection, arriving, false, judged);
  } else {
    judged(false);
  }
}

void LaneHandshake::dial_through(const LaneInvite& way, std::uint64_t lane, PeerId peer,
                                 bool is_client, Dialled done) {
  const Proved wanted{.lane = lane, .peer = peer, .use = Use::behind_relay};
  dial(way, [this, wanted, is_client, done = std::move(done)](ConnectionPtr connection) {
    if (connection) {
      impl_->secure(std::move(connection), wanted, is_client, done);
    } else {
      done(nullptr);
    }
  });
}

void LaneHandshake::dial(const LaneInvite& invite, Dialled done) {
  impl_->end_dial(invite.lane);
  if (impl_->dials.size() >= dials_max) {
    ++impl_->dials_failed;
    done(nullptr);
    return;
  }
  auto dial = std::make_shared<Impl::Dial>(impl_->io);
  dial->invite = invite;
  dial->done = std::move(done);
  dial->until = Impl::Clock::now() + dial_deadline;
  impl_->dials[invite.lane] = dial;
  impl_->update_listeners();
  const bool at_home =
      impl_->options.local && invite.host == impl_->host && !invite.unix_path.empty();
  if (at_home) {
    impl_->dial_unix(dial);
  } else {
    impl_->dial_tcp(dial);
  }
}

}  // namespace gv
