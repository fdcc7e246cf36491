// Lanes: invited over the control link, dialled by whoever can, then blocks both ways.
#include "net/bulk_lanes.hpp"

#include <sodium.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/connect.hpp>
#include <asio/generic/stream_protocol.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/read.hpp>
#include <asio/ssl.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <chrono>
#include <cstring>
#include <deque>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <vector>

#include "net/lane_security.hpp"
#include "net/wire.hpp"

namespace gv {
namespace {

using Clock = std::chrono::steady_clock;
using Socket = asio::generic::stream_protocol::socket;
using asio::ip::tcp;
using asio::local::stream_protocol;

constexpr std::size_t header_bytes = 40;
constexpr std::size_t messages_max = 64;   ///< Waiting on one lane; more go by the control link.
constexpr std::size_t transfers_max = 16;  ///< Waiting on one lane; more are dropped.
constexpr std::size_t strangers_max = 32;  ///< Connections that have not proved themselves yet.
constexpr auto proof_deadline = std::chrono::seconds(3);
constexpr auto invite_deadline = std::chrono::seconds(5);
constexpr auto accept_pause = std::chrono::milliseconds(100);
constexpr auto housekeeping_period = std::chrono::milliseconds(250);
constexpr int socket_buffer_bytes = 1 << 20;
constexpr std::size_t unix_path_max = 100;  ///< The kernel's limit is 107.

constexpr char plain_first_byte = 'G';
constexpr char tls_first_byte = 0x16;  ///< A TLS record of type handshake.

/// First bytes on a plain lane, each way: who dials proves that it holds the token, then the other.
struct Proof {
  char mark = plain_first_byte;
  std::uint8_t version = 1;
  std::uint8_t unused[6] = {};
  std::uint64_t lane = 0;
  std::array<std::uint8_t, 32> proof{};
};
static_assert(sizeof(Proof) == 48);

constexpr std::uint16_t block_kind = 1;
constexpr std::uint16_t message_kind = 2;

/// Precedes every block and every message; a message leaves all but the first three fields at 0.
struct Header {
  std::uint32_t length = 0;
  std::uint16_t version = 1;
  std::uint16_t kind = block_kind;
  std::uint64_t owner = 0;
  std::uint64_t session = 0;
  std::uint64_t number = 0;
  std::uint64_t offset = 0;
};
static_assert(sizeof(Header) == header_bytes);

std::uint64_t random_number() {
  std::uint64_t value = 0;
  while (value == 0) randombytes_buf(&value, sizeof value);
  return value;
}

/// Equal for processes that share a running kernel and a network: what a Unix socket needs and what
/// tells namespaces apart.
std::uint64_t host_tag() {
  std::string text;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> text;
  struct stat space {};
  if (::stat("/proc/self/ns/net", &space) == 0) text += "/" + std::to_string(space.st_ino);
  std::array<unsigned char, crypto_generichash_BYTES_MIN> digest{};
  crypto_generichash(digest.data(), digest.size(),
                     reinterpret_cast<const unsigned char*>(text.data()), text.size(), nullptr, 0);
  std::uint64_t tag = 0;
  std::memcpy(&tag, digest.data(), sizeof tag);
  return tag;
}

/// A connection: a socket, with TLS on it or without.
struct Connection {
  explicit Connection(Socket connected) : socket(std::move(connected)) {}

  Socket socket;
  std::optional<asio::ssl::stream<Socket&>> tls;
  Clock::time_point began = Clock::now();
  // What is being read and written lives here, because the lane may be gone before the system is
  // done.
  Header out;
  Payload out_owner;
  std::vector<std::byte> out_message;
  Header in;
  std::vector<std::byte> buffer;

  template <class Buffers, class Handler>
  void write(const Buffers& buffers, Handler handler) {
    if (tls) {
      asio::async_write(*tls, buffers, std::move(handler));
    } else {
      asio::async_write(socket, buffers, std::move(handler));
    }
  }
  template <class Buffers, class Handler>
  void read(const Buffers& buffers, Handler handler) {
    if (tls) {
      asio::async_read(*tls, buffers, std::move(handler));
    } else {
      asio::async_read(socket, buffers, std::move(handler));
    }
  }
  void close() {
    asio::error_code ignored;
    socket.close(ignored);
  }
};
using ConnectionPtr = std::shared_ptr<Connection>;

/// What is known of the way to one peer.
struct Lane {
  enum class State { none, invited, dialling, open };

  PeerId peer{};
  State state = State::none;
  std::uint64_t id = 0;
  std::string kind;
  ConnectionPtr connection;
  std::deque<Transfer> queue;
  std::deque<std::vector<std::byte>> messages;
  bool writing = false;
  bool reading_block = false;
  Clock::time_point progress;  ///< Last byte either way, or the invitation.
};

/// A token we gave out or were given.
struct Invitation {
  PeerId peer{};
  LaneToken token{};
  Clock::time_point until;
};

}  // namespace

struct BulkLanes::Impl {
  Impl(asio::io_context& loop, Options given, Callbacks calls);
  ~Impl();

  void listen_tcp();
  void listen_unix();
  template <class Acceptor>
  void accept(std::shared_ptr<Acceptor> acceptor);
  void welcome(Socket socket, bool local);
  void prove_tls(ConnectionPtr connection);
  void prove_plain(ConnectionPtr connection, bool local);
  void accepted(std::uint64_t id, ConnectionPtr connection, std::string kind);

  void invite(Lane& lane);
  void answer(PeerId peer, const LaneInvite& theirs);
  void dial(PeerId peer, const LaneInvite& invite);
  void dial_unix(PeerId peer, const LaneInvite& invite);
  void dial_tcp(PeerId peer, const LaneInvite& invite);
  void dialled(PeerId peer, const LaneInvite& invite, ConnectionPtr connection, bool local);
  void dial_failed(PeerId peer, const LaneInvite& invite);
  void opened(PeerId peer, std::uint64_t id, ConnectionPtr connection, std::string kind);
  void refused(PeerId peer);
  void broken(PeerId peer, const ConnectionPtr& connection, const std::string& why);

  void write_next(PeerId peer);
  void read_header(PeerId peer);
  void read_block(PeerId peer);
  void arrived(PeerId peer, const ConnectionPtr& connection);
  void housekeeping();
  bool room_for_lane() const;
  LaneInvite make_invite(PeerId peer, std::uint64_t id, const LaneToken& token) const;
  std::optional<LaneToken> token_of(std::uint64_t lane) const;
  Lane* current(PeerId peer, const ConnectionPtr& connection);

  asio::io_context& io;
  Options options;
  Callbacks callbacks;
  Counters counters;
  LaneTls tls;
  std::shared_ptr<tcp::acceptor> tcp_acceptor;
  std::shared_ptr<stream_protocol::acceptor> unix_acceptor;
  std::string listening;
  std::string advertised;
  std::filesystem::path unix_path;
  std::filesystem::path own_folder;  ///< Made because the path given was too long for a socket.
  std::uint64_t host = host_tag();
  std::map<PeerId, Lane> lanes;
  std::map<std::uint64_t, Invitation> invitations;
  std::map<PeerId, std::uint64_t> previous;  ///< The last lane that was open with a peer.
  std::set<ConnectionPtr> strangers;
  std::shared_ptr<asio::steady_timer> timer;
  /// Handlers hold this weakly: when it is gone, so is everything they would touch.
  std::shared_ptr<int> alive = std::make_shared<int>(0);
};

BulkLanes::Impl::Impl(asio::io_context& loop, Options given, Callbacks calls)
    : io(loop),
      options(std::move(given)),
      callbacks(std::move(calls)),
      tls([this](std::uint64_t lane) { return token_of(lane); }),
      timer(std::make_shared<asio::steady_timer>(io)) {
  if (!options.listen_host.empty()) listen_tcp();
  if (options.security == Security::automatic || options.security == Security::unix_socket) {
    listen_unix();
  }
  housekeeping();
}

BulkLanes::Impl::~Impl() {
  alive.reset();
  timer->cancel();
  for (auto& [peer, lane] : lanes) {
    if (lane.connection) lane.connection->close();
  }
  for (const ConnectionPtr& stranger : strangers) stranger->close();
  std::error_code ignored;
  if (!unix_path.empty()) std::filesystem::remove(unix_path, ignored);
  if (!own_folder.empty()) std::filesystem::remove(own_folder, ignored);
}

void BulkLanes::Impl::listen_tcp() {
  asio::error_code error;
  const auto address = asio::ip::make_address(options.listen_host, error);
  tcp::endpoint endpoint(address, 0);
  if (error) {
    tcp::resolver resolver(io);
    const auto found = resolver.resolve(options.listen_host, "0", error);
    if (error || found.empty()) {
      throw std::runtime_error("--listen " + options.listen_host +
                               ": no such address here; give a numeric address of this machine");
    }
    endpoint = found.begin()->endpoint();
  }
  tcp_acceptor = std::make_shared<tcp::acceptor>(io);
  tcp_acceptor->open(endpoint.protocol());
  tcp_acceptor->bind(endpoint);
  tcp_acceptor->listen();
  const std::string port = std::to_string(tcp_acceptor->local_endpoint().port());
  const auto with_port = [&](const std::string& host) {
    return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + port;
  };
  listening = with_port(options.listen_host);
  advertised =
      with_port(options.advertise_host.empty() ? options.listen_host : options.advertise_host);
  accept(tcp_acceptor);
}

void BulkLanes::Impl::listen_unix() {
  std::filesystem::path folder = options.socket_folder;
  const std::string name = "lane-" + std::to_string(::getpid());
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if ((std::filesystem::absolute(folder, error) / name).string().size() > unix_path_max) {
    std::string pattern = "/tmp/grapevine-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) return;
    folder = own_folder = pattern;
  }
  ::chmod(folder.c_str(), S_IRWXU);
  unix_path = std::filesystem::absolute(folder, error) / name;
  std::filesystem::remove(unix_path, error);
  unix_acceptor = std::make_shared<stream_protocol::acceptor>(io);
  asio::error_code failed;
  unix_acceptor->open(stream_protocol(), failed);
  if (!failed) unix_acceptor->bind(stream_protocol::endpoint(unix_path.string()), failed);
  if (!failed) unix_acceptor->listen(asio::socket_base::max_listen_connections, failed);
  if (failed) {
    callbacks.event(
        {.name = "lane_listen_failed", .detail = "no Unix socket: " + failed.message()});
    unix_acceptor.reset();
    unix_path.clear();
    return;
  }
  accept(unix_acceptor);
}

template <class Acceptor>
void BulkLanes::Impl::accept(std::shared_ptr<Acceptor> acceptor) {
  acceptor->async_accept(
      [this, acceptor, weak = std::weak_ptr(alive)](
          asio::error_code error, typename Acceptor::protocol_type::socket socket) {
        if (weak.expired() || error == asio::error::operation_aborted) return;
        if (error) {
          // Out of descriptors, most likely: accepting again at once would spin.
          auto pause = std::make_shared<asio::steady_timer>(io, accept_pause);
          pause->async_wait([this, acceptor, pause, weak](asio::error_code) {
            if (!weak.expired()) accept(acceptor);
          });
          return;
        }
        const bool local = std::is_same_v<Acceptor, stream_protocol::acceptor>;
        welcome(Socket(std::move(socket)), local);
        accept(acceptor);
      });
}

/// Somebody connected. What it sends first says whether it speaks TLS or plainly.
void BulkLanes::Impl::welcome(Socket socket, bool local) {
  if (strangers.size() >= strangers_max) {
    ++counters.lanes_refused;
    return;
  }
  auto connection = std::make_shared<Connection>(std::move(socket));
  strangers.insert(connection);
  auto first = std::make_shared<char>(0);
  connection->socket.async_receive(
      asio::buffer(first.get(), 1), asio::socket_base::message_peek,
      [this, connection, first, local, weak = std::weak_ptr(alive)](asio::error_code error,
                                                                    std::size_t) {
        if (weak.expired()) return;
        const bool may_be_plain =
            local || (options.trusted_network && options.security != Security::tls);
        if (!error && *first == plain_first_byte && may_be_plain) {
          prove_plain(connection, local);
        } else if (!error && *first == tls_first_byte && !local) {
          prove_tls(connection);
        } else {
          ++counters.lanes_refused;
          strangers.erase(connection);
          connection->close();
        }
      });
}

void BulkLanes::Impl::prove_tls(ConnectionPtr connection) {
  connection->tls.emplace(connection->socket, tls.context());
  connection->tls->async_handshake(
      asio::ssl::stream_base::server,
      [this, connection, weak = std::weak_ptr(alive)](asio::error_code error) {
        if (weak.expired()) return;
        strangers.erase(connection);
        SSL* ssl = connection->tls->native_handle();
        if (error || !LaneTls::is_mutual(ssl)) {
          ++counters.lanes_refused;
          connection->close();
          return;
        }
        accepted(LaneTls::lane_of(ssl), connection, "tls");
      });
}

void BulkLanes::Impl::prove_plain(ConnectionPtr connection, bool local) {
  auto theirs = std::make_shared<Proof>();
  connection->read(asio::buffer(theirs.get(), sizeof(Proof)), [this, connection, theirs, local,
                                                               weak = std::weak_ptr(alive)](
                                                                  asio::error_code error,
                                                                  std::size_t) {
    if (weak.expired()) return;
    const auto token = error ? std::nullopt : token_of(theirs->lane);
    if (!token || !same_proof(theirs->proof, lane_proof(*token, theirs->lane, true))) {
      ++counters.lanes_refused;
      strangers.erase(connection);
      connection->close();
      return;
    }
    auto ours = std::make_shared<Proof>();
    ours->lane = theirs->lane;
    ours->proof = lane_proof(*token, theirs->lane, false);
    connection->write(asio::buffer(ours.get(), sizeof(Proof)),
                      [this, connection, ours, local, weak](asio::error_code failed, std::size_t) {
                        if (weak.expired()) return;
                        strangers.erase(connection);
                        if (failed) return;
                        accepted(ours->lane, connection, local ? "unix" : "plain");
                      });
  });
}

void BulkLanes::Impl::accepted(std::uint64_t id, ConnectionPtr connection, std::string kind) {
  const auto invitation = invitations.find(id);
  if (invitation == invitations.end()) {
    connection->close();
    return;
  }
  opened(invitation->second.peer, id, std::move(connection), std::move(kind));
}

std::optional<LaneToken> BulkLanes::Impl::token_of(std::uint64_t lane) const {
  const auto found = invitations.find(lane);
  return found == invitations.end() ? std::nullopt : std::optional(found->second.token);
}

bool BulkLanes::Impl::room_for_lane() const {
  // A lane holds one block on its way in and hands one to the kernel on its way out.
  const std::size_t affordable = options.budget_bytes / (2 * block_bytes_max);
  return lanes.size() < std::min(options.lanes_max, std::max<std::size_t>(1, affordable));
}

LaneInvite BulkLanes::Impl::make_invite(PeerId peer, std::uint64_t id,
                                        const LaneToken& token) const {
  const auto known = previous.find(peer);
  return {.lane = id,
          .token = token,
          .address = advertised,
          .unix_path = unix_path.string(),
          .host = host,
          .previous = known == previous.end() ? 0 : known->second};
}

void BulkLanes::Impl::invite(Lane& lane) {
  lane.state = Lane::State::invited;
  lane.id = random_number();
  lane.progress = Clock::now();
  LaneToken token;
  randombytes_buf(token.data(), token.size());
  invitations[lane.id] = {lane.peer, token, Clock::now() + invite_deadline};
  if (!callbacks.send_invite(lane.peer, make_invite(lane.peer, lane.id, token))) refused(lane.peer);
}

/// The other side wants a lane, or answers our wish for one.
void BulkLanes::Impl::answer(PeerId peer, const LaneInvite& theirs) {
  auto found = lanes.find(peer);
  if (theirs.answer) {
    const bool ours = found != lanes.end() && found->second.id == theirs.lane &&
                      invitations.contains(theirs.lane) && found->second.state != Lane::State::open;
    if (!ours) return;
    if (theirs.refused) {
      refused(peer);
      return;
    }
    // It could not dial us, so we dial it, with the token we gave it.
    LaneInvite turned = theirs;
    turned.token = invitations.at(theirs.lane).token;
    dial(peer, turned);
    return;
  }
  if (found == lanes.end()) {
    if (!room_for_lane()) {
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
  if (waiting) invitations.erase(lane.id);
  if (lane.state == Lane::State::open) {
    // Sent before it heard of the lane that is open by now, or because it has lost that lane?
    if (theirs.previous != lane.id) return;
    lane.connection->close();
    lane.connection.reset();
    lane.writing = false;
  }
  lane.state = Lane::State::dialling;
  lane.id = theirs.lane;
  lane.progress = Clock::now();
  invitations[theirs.lane] = {peer, theirs.token, Clock::now() + invite_deadline};
  dial(peer, theirs);
}

void BulkLanes::Impl::dial(PeerId peer, const LaneInvite& invite) {
  const bool may_be_unix =
      options.security == Security::automatic || options.security == Security::unix_socket;
  if (may_be_unix && invite.host == host && !invite.unix_path.empty()) {
    dial_unix(peer, invite);
  } else {
    dial_tcp(peer, invite);
  }
}

void BulkLanes::Impl::dial_unix(PeerId peer, const LaneInvite& invite) {
  if (invite.unix_path.size() > unix_path_max) {
    dial_tcp(peer, invite);
    return;
  }
  auto socket = std::make_shared<stream_protocol::socket>(io);
  socket->async_connect(
      stream_protocol::endpoint(invite.unix_path),
      [this, peer, invite, socket, weak = std::weak_ptr(alive)](asio::error_code error) {
        if (weak.expired()) return;
        if (error) {
          dial_tcp(peer, invite);
          return;
        }
        dialled(peer, invite, std::make_shared<Connection>(Socket(std::move(*socket))), true);
      });
}

void BulkLanes::Impl::dial_tcp(PeerId peer, const LaneInvite& invite) {
  const auto colon = invite.address.rfind(':');
  if (invite.address.empty() || colon == std::string::npos ||
      options.security == Security::unix_socket) {
    dial_failed(peer, invite);
    return;
  }
  std::string name = invite.address.substr(0, colon);
  if (name.starts_with('[') && name.ends_with(']')) name = name.substr(1, name.size() - 2);
  auto resolver = std::make_shared<tcp::resolver>(io);
  resolver->async_resolve(
      name, invite.address.substr(colon + 1),
      [this, peer, invite, resolver, weak = std::weak_ptr(alive)](
          asio::error_code error, tcp::resolver::results_type found) {
        if (weak.expired()) return;
        if (error) {
          dial_failed(peer, invite);
          return;
        }
        auto socket = std::make_shared<tcp::socket>(io);
        asio::async_connect(
            *socket, found,
            [this, peer, invite, socket, weak](asio::error_code failed, const tcp::endpoint&) {
              if (weak.expired()) return;
              if (failed) {
                dial_failed(peer, invite);
                return;
              }
              asio::error_code ignored;
              socket->set_option(tcp::no_delay(true), ignored);
              dialled(peer, invite, std::make_shared<Connection>(Socket(std::move(*socket))),
                      false);
            });
      });
}

void BulkLanes::Impl::dialled(PeerId peer, const LaneInvite& invite, ConnectionPtr connection,
                              bool local) {
  const auto token = token_of(invite.lane);
  if (!token) return;
  strangers.insert(connection);
  const bool plain = local || (options.trusted_network && options.security != Security::tls);
  if (!plain) {
    connection->tls.emplace(connection->socket, tls.context());
    tls.offer(connection->tls->native_handle(), invite.lane);
    connection->tls->async_handshake(
        asio::ssl::stream_base::client,
        [this, peer, invite, connection, weak = std::weak_ptr(alive)](asio::error_code error) {
          if (weak.expired()) return;
          strangers.erase(connection);
          if (error || !LaneTls::is_mutual(connection->tls->native_handle())) {
            connection->close();
            dial_failed(peer, invite);
            return;
          }
          opened(peer, invite.lane, connection, "tls");
        });
    return;
  }
  auto proofs = std::make_shared<std::array<Proof, 2>>();
  (*proofs)[0].lane = invite.lane;
  (*proofs)[0].proof = lane_proof(*token, invite.lane, true);
  connection->write(asio::buffer(&(*proofs)[0], sizeof(Proof)),
                    [this, peer, invite, connection, proofs, local,
                     expected = lane_proof(*token, invite.lane, false),
                     weak = std::weak_ptr(alive)](asio::error_code error, std::size_t) {
                      if (weak.expired()) return;
                      if (error) {
                        strangers.erase(connection);
                        dial_failed(peer, invite);
                        return;
                      }
                      connection->read(asio::buffer(&(*proofs)[1], sizeof(Proof)),
                                       [this, peer, invite, connection, proofs, local, expected,
                                        weak](asio::error_code failed, std::size_t) {
                                         if (weak.expired()) return;
                                         strangers.erase(connection);
                                         if (failed || !same_proof((*proofs)[1].proof, expected)) {
                                           connection->close();
                                           dial_failed(peer, invite);
                                           return;
                                         }
                                         opened(peer, invite.lane, connection,
                                                local ? "unix" : "plain");
                                       });
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
  if (!invite.answer && !advertised.empty()) {
    found->second.progress = Clock::now();
    callbacks.send_invite(peer, reply);
    return;
  }
  reply.refused = true;
  if (!invite.answer) callbacks.send_invite(peer, reply);
  refused(peer);
}

void BulkLanes::Impl::opened(PeerId peer, std::uint64_t id, ConnectionPtr connection,
                             std::string kind) {
  invitations.erase(id);
  const auto found = lanes.find(peer);
  if (found == lanes.end() || found->second.id != id || found->second.state == Lane::State::open) {
    connection->close();
    return;
  }
  Lane& lane = found->second;
  asio::error_code ignored;
  connection->socket.set_option(asio::socket_base::send_buffer_size(socket_buffer_bytes), ignored);
  lane.state = Lane::State::open;
  lane.connection = std::move(connection);
  lane.kind = std::move(kind);
  lane.progress = Clock::now();
  lane.writing = false;
  lane.reading_block = false;
  previous[peer] = id;
  ++counters.lanes_opened;
  callbacks.event({.name = "lane_opened", .peer = peer, .detail = lane.kind});
  read_header(peer);
  write_next(peer);
}

void BulkLanes::Impl::refused(PeerId peer) {
  const auto found = lanes.find(peer);
  if (found == lanes.end()) return;
  invitations.erase(found->second.id);
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
  connection->close();
  lanes.erase(peer);
  callbacks.event(
      {.name = "lane_lost", .peer = peer, .reason = Reason::unreachable, .detail = why});
  callbacks.lost(peer);
}

void BulkLanes::Impl::write_next(PeerId peer) {
  const auto found = lanes.find(peer);
  if (found == lanes.end()) return;
  Lane& lane = found->second;
  std::deque<Transfer>& queue = lane.queue;
  while (!queue.empty() && queue.front().offset >= queue.front().payload.bytes.size()) {
    queue.pop_front();
  }
  if (lane.state != Lane::State::open || lane.writing) return;
  Connection& connection = *lane.connection;
  std::span<const std::byte> bytes;
  if (!lane.messages.empty()) {
    connection.out_message = std::move(lane.messages.front());
    lane.messages.pop_front();
    bytes = connection.out_message;
    connection.out = {.length = static_cast<std::uint32_t>(bytes.size()), .kind = message_kind};
  } else if (!queue.empty()) {
    Transfer& transfer = queue.front();
    const std::size_t length =
        std::min<std::size_t>(block_bytes_max, transfer.payload.bytes.size() - transfer.offset);
    bytes = transfer.payload.bytes.subspan(transfer.offset, length);
    connection.out = {.length = static_cast<std::uint32_t>(length),
                      .owner = static_cast<std::uint64_t>(transfer.id.owner),
                      .session = transfer.id.session,
                      .number = transfer.id.number,
                      .offset = transfer.offset};
    connection.out_owner = transfer.payload;
    transfer.offset += length;
  } else {
    return;
  }
  lane.writing = true;
  const std::array<asio::const_buffer, 2> buffers{asio::buffer(&connection.out, header_bytes),
                                                  asio::buffer(bytes.data(), bytes.size())};
  connection.write(buffers, [this, peer, connection = lane.connection, weak = std::weak_ptr(alive)](
                                asio::error_code error, std::size_t written) {
    if (weak.expired()) return;
    counters.bytes_sent += written;
    Lane* same = current(peer, connection);
    if (same == nullptr) return;
    if (error) {
      broken(peer, connection, error.message());
      return;
    }
    same->writing = false;
    connection->out_owner = {};
    same->progress = Clock::now();
    write_next(peer);
  });
}

void BulkLanes::Impl::read_header(PeerId peer) {
  Lane& lane = lanes.at(peer);
  lane.connection->read(
      asio::buffer(&lane.connection->in, header_bytes),
      [this, peer, connection = lane.connection, weak = std::weak_ptr(alive)](
          asio::error_code error, std::size_t read) {
        if (weak.expired()) return;
        counters.bytes_received += read;
        Lane* same = current(peer, connection);
        if (same == nullptr) return;
        const Header& in = connection->in;
        const std::size_t longest = in.kind == block_kind ? block_bytes_max : frame_bytes_max;
        const bool sound = !error && in.version == 1 && in.length > 0 && in.length <= longest &&
                           (in.kind == block_kind || in.kind == message_kind);
        if (!sound) {
          broken(peer, connection, error ? error.message() : "a malformed block header");
          return;
        }
        same->progress = Clock::now();
        same->reading_block = true;
        read_block(peer);
      });
}

void BulkLanes::Impl::read_block(PeerId peer) {
  Lane& lane = lanes.at(peer);
  Connection& connection = *lane.connection;
  connection.buffer.resize(block_bytes_max);
  connection.read(asio::buffer(connection.buffer.data(), connection.in.length),
                  [this, peer, connection = lane.connection, weak = std::weak_ptr(alive)](
                      asio::error_code error, std::size_t read) {
                    if (weak.expired()) return;
                    counters.bytes_received += read;
                    Lane* same = current(peer, connection);
                    if (same == nullptr) return;
                    if (error) {
                      broken(peer, connection, error.message());
                      return;
                    }
                    same->progress = Clock::now();
                    same->reading_block = false;
                    arrived(peer, connection);
                    // What came may have ended the lane.
                    if (current(peer, connection) != nullptr) read_header(peer);
                  });
}

/// A whole block or message lies in the connection's buffer.
void BulkLanes::Impl::arrived(PeerId peer, const ConnectionPtr& connection) {
  const Header& in = connection->in;
  const auto bytes = std::span<const std::byte>(connection->buffer).first(in.length);
  if (in.kind == block_kind) {
    callbacks.block(peer, Block{.id = {static_cast<PeerId>(in.owner), in.session, in.number},
                                .offset = in.offset,
                                .bytes = bytes});
    return;
  }
  Decoded decoded = decode(bytes);
  const auto* message = decoded.frame ? std::get_if<Message>(&*decoded.frame) : nullptr;
  if (message == nullptr) {
    broken(peer, connection, decoded.frame ? "a frame that is no message" : decoded.problem);
    return;
  }
  callbacks.message({peer, *message});
}

void BulkLanes::Impl::housekeeping() {
  const auto now = Clock::now();
  std::vector<PeerId> unanswered;
  std::vector<std::pair<PeerId, ConnectionPtr>> stuck;
  for (auto lane = lanes.begin(); lane != lanes.end();) {
    Lane& own = lane->second;
    const bool busy =
        own.writing || own.reading_block || !own.queue.empty() || !own.messages.empty();
    if (own.state != Lane::State::open) {
      if (now - own.progress > invite_deadline) unanswered.push_back(lane->first);
    } else if (busy && now - own.progress > options.progress_deadline) {
      stuck.emplace_back(lane->first, own.connection);
    } else if (!busy && now - own.progress > options.idle_close) {
      own.connection->close();
      lane = lanes.erase(lane);
      continue;
    }
    ++lane;
  }
  for (const PeerId peer : unanswered) refused(peer);
  for (const auto& [peer, connection] : stuck) broken(peer, connection, "no progress");
  std::erase_if(invitations, [&](const auto& item) { return now > item.second.until; });
  std::erase_if(strangers, [&](const ConnectionPtr& stranger) {
    if (now - stranger->began < proof_deadline) return false;
    ++counters.lanes_refused;
    stranger->close();
    return true;
  });
  timer->expires_after(housekeeping_period);
  timer->async_wait([this, weak = std::weak_ptr(alive)](asio::error_code error) {
    if (!error && !weak.expired()) housekeeping();
  });
}

BulkLanes::BulkLanes(asio::io_context& io, Options options, Callbacks callbacks)
    : impl_(std::make_unique<Impl>(io, std::move(options), std::move(callbacks))) {}

BulkLanes::~BulkLanes() = default;

const std::string& BulkLanes::listening() const { return impl_->listening; }

void BulkLanes::receive_invite(PeerId from, const LaneInvite& invite) {
  impl_->answer(from, invite);
}

void BulkLanes::send(Transfer transfer) {
  const PeerId peer = transfer.to;
  auto found = impl_->lanes.find(peer);
  if (found == impl_->lanes.end()) {
    if (!impl_->room_for_lane()) {
      impl_->callbacks.refused(peer);
      return;
    }
    found = impl_->lanes.emplace(peer, Lane{.peer = peer}).first;
  }
  Lane& lane = found->second;
  std::erase_if(lane.queue, [&](const Transfer& old) { return old.id == transfer.id; });
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

void BulkLanes::forget(PeerId peer) {
  const auto found = impl_->lanes.find(peer);
  if (found == impl_->lanes.end()) return;
  if (found->second.connection) found->second.connection->close();
  impl_->invitations.erase(found->second.id);
  impl_->lanes.erase(found);
}

const BulkLanes::Counters& BulkLanes::counters() const { return impl_->counters; }

}  // namespace gv
