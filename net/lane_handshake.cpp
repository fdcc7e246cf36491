// Listening and dialling for lanes, and the handshakes that turn a stranger into a partner.
#include "net/lane_handshake.hpp"

#include <sodium.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/steady_timer.hpp>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

namespace gv {
namespace {

using Clock = LaneConnection::Clock;
using Socket = LaneConnection::Socket;
using asio::ip::tcp;
using asio::local::stream_protocol;

constexpr std::size_t strangers_max = 32;  ///< Connections that have not proved themselves yet.
constexpr auto proof_deadline = std::chrono::seconds(3);
constexpr auto invitation_lasts = std::chrono::seconds(5);
constexpr auto accept_pause = std::chrono::milliseconds(100);
constexpr std::size_t unix_path_max = 100;  ///< The kernel's limit is 107.

constexpr char plain_first_byte = 'G';
constexpr char tls_first_byte = 0x16;  ///< A TLS record of type handshake.

/// First bytes on a plain lane, each way: the dialling side first proves that it holds the token,
/// then the other. On a Unix socket the descriptors of the sender's ring and of its shared buffer,
/// if it has one, come with it.
struct Proof {
  char mark = plain_first_byte;
  std::uint8_t version = 1;
  std::uint8_t unused[6] = {};
  std::uint64_t lane = 0;
  std::array<std::uint8_t, 32> proof{};
};
static_assert(sizeof(Proof) == 48);

/// Descriptors of a ring and of a shared buffer.
constexpr std::size_t descriptors_max = 2;

/// Room for descriptors beside the bytes of a message.
union Ancillary {
  cmsghdr align;
  char bytes[CMSG_SPACE(descriptors_max * sizeof(int))];
};

/// The addresses that a name stands for, and the socket that tries one of them.
struct Attempt {
  Attempt(asio::io_context& io, tcp::resolver::results_type found)
      : addresses(std::move(found)), next(addresses.begin()), socket(io) {}

  tcp::resolver::results_type addresses;
  tcp::resolver::results_type::const_iterator next;
  tcp::socket socket;
};

/// A proof that is arriving, with its descriptors.
struct Arriving {
  Proof proof;
  std::size_t got = 0;
  std::vector<Descriptor> descriptors;
};

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

/// Sends a proof as the first bytes of a connection, whose buffer is empty: at once or never.
bool send_proof(LaneConnection& connection, const LaneToken& token, std::uint64_t lane,
                bool dialled, const SharedBuffer* lent) {
  Proof proof{.lane = lane, .proof = lane_proof(token, lane, dialled)};
  iovec bytes{&proof, sizeof proof};
  Ancillary ancillary{};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  if (connection.ring_out) {
    std::array<int, descriptors_max> descriptors{connection.ring_out->descriptor(),
                                                 lent != nullptr ? lent->descriptor() : -1};
    const std::size_t length = (lent != nullptr ? 2 : 1) * sizeof(int);
    message.msg_control = ancillary.bytes;
    message.msg_controllen = CMSG_SPACE(length);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(length);
    std::memcpy(CMSG_DATA(header), descriptors.data(), length);
  }
  return ::sendmsg(connection.socket.native_handle(), &message, MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(sizeof proof);
}

/// Maps the memory that came with a proof; false unless the connection then has all it needs.
bool take_memory(LaneConnection& connection, const std::vector<Descriptor>& descriptors) {
  if (!connection.ring_out || descriptors.empty()) return false;
  connection.ring_in = RingReader::map(descriptors[0]);
  if (descriptors.size() == 1) return connection.ring_in.has_value();
  connection.borrowed = BorrowedBuffer::map(descriptors[1]);
  return connection.ring_in && connection.borrowed;
}

/// Reads the part of a proof that is there; false if it is none.
bool take_proof(LaneConnection& connection, Arriving& arriving) {
  iovec bytes{reinterpret_cast<char*>(&arriving.proof) + arriving.got,
              sizeof(Proof) - arriving.got};
  Ancillary ancillary{};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = ancillary.bytes;
  message.msg_controllen = sizeof ancillary.bytes;
  const ssize_t got =
      ::recvmsg(connection.socket.native_handle(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t at = 0; CMSG_LEN(at + sizeof(int)) <= header->cmsg_len; at += sizeof(int)) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(header) + at, sizeof descriptor);
      arriving.descriptors.emplace_back(descriptor);
    }
  }
  arriving.got += static_cast<std::size_t>(got);
  return got > 0 && (message.msg_flags & MSG_CTRUNC) == 0;
}

}  // namespace

struct LaneHandshake::Impl {
  Impl(asio::io_context& loop, Options given, Callbacks calls);
  ~Impl();

  void choose_source();
  void listen_tcp();
  void listen_unix();
  template <class Acceptor>
  void accept(std::shared_ptr<Acceptor> acceptor);
  void welcome(Socket socket, bool at_home);
  void send_away(const ConnectionPtr& connection);
  void welcome_tls(const ConnectionPtr& connection);
  void welcome_plain(const ConnectionPtr& connection, bool at_home);

  void dial_unix(const LaneInvite& invite, Dialled done);
  void connect(std::shared_ptr<Attempt> attempt, std::function<void(std::optional<Socket>)> then);
  void dial_tcp(const LaneInvite& invite, Dialled done);
  void prove_tls(const LaneInvite& invite, const ConnectionPtr& connection, Dialled done);
  void prove_plain(const LaneInvite& invite, const ConnectionPtr& connection, bool at_home,
                   Dialled done);

  /// Calls `then` with whether a complete proof came for an expected lane.
  void await_proof(const ConnectionPtr& connection, std::shared_ptr<Arriving> arriving,
                   bool by_dialler, std::function<void(bool)> then);
  std::optional<LaneToken> token_of(std::uint64_t lane) const;

  /// A token we gave out or were given.
  struct Expected {
    LaneToken token{};
    Clock::time_point until;
  };

  asio::io_context& io;
  Options options;
  Callbacks callbacks;
  LaneTls tls;
  std::shared_ptr<tcp::acceptor> tcp_acceptor;
  std::shared_ptr<stream_protocol::acceptor> unix_acceptor;
  std::string listening;
  std::string advertised;
  std::optional<tcp::endpoint> source;  ///< Where to dial from, when not just anywhere.
  std::filesystem::path unix_path;
  std::filesystem::path own_folder;  ///< Made because the path given was too long for a socket.
  std::uint64_t host = host_tag();
  std::map<std::uint64_t, Expected> expected;
  std::set<ConnectionPtr> strangers;
  std::uint64_t refused = 0;
  /// Handlers hold this weakly: when it is gone, so is everything they would touch.
  std::shared_ptr<int> alive = std::make_shared<int>(0);
};

LaneHandshake::Impl::Impl(asio::io_context& loop, Options given, Callbacks calls)
    : io(loop),
      options(std::move(given)),
      callbacks(std::move(calls)),
      tls([this](std::uint64_t lane) { return token_of(lane); }) {
  if (!options.dial_from.empty()) choose_source();
  if (!options.listen_host.empty()) listen_tcp();
  if (options.local) listen_unix();
}

LaneHandshake::Impl::~Impl() {
  alive.reset();
  for (const ConnectionPtr& stranger : strangers) stranger->close();
  std::error_code ignored;
  if (!unix_path.empty()) std::filesystem::remove(unix_path, ignored);
  if (!own_folder.empty()) std::filesystem::remove(own_folder, ignored);
}

/// Checks now what would make every later dialling fail.
void LaneHandshake::Impl::choose_source() {
  asio::error_code error;
  source.emplace(asio::ip::make_address(options.dial_from, error), 0);
  tcp::socket attempt(io);
  if (!error) attempt.open(source->protocol(), error);
  if (!error) attempt.bind(*source, error);
  if (error) {
    throw std::runtime_error("--dial-from " + options.dial_from +
                             ": no such address here; give a numeric address of this machine");
  }
}

void LaneHandshake::Impl::listen_tcp() {
  asio::error_code error;
  const auto address = asio::ip::make_address(options.listen_host, error);
  tcp::endpoint endpoint(address, options.port);
  if (error) {
    tcp::resolver resolver(io);
    const auto found = resolver.resolve(options.listen_host, "0", error);
    if (error || found.empty()) {
      throw std::runtime_error("--listen " + options.listen_host +
                               ": no such address here; give a numeric address of this machine");
    }
    endpoint = {found.begin()->endpoint().address(), options.port};
  }
  tcp_acceptor = std::make_shared<tcp::acceptor>(io);
  tcp_acceptor->open(endpoint.protocol());
  // A port of its own is free again as soon as the peer that had it before is gone.
  tcp_acceptor->set_option(asio::socket_base::reuse_address(true));
  begin_unpaced(tcp_acceptor->native_handle());  // Accepted sockets inherit it.
  tcp_acceptor->bind(endpoint, error);
  if (!error) tcp_acceptor->listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    throw std::runtime_error("--lane-port " + std::to_string(options.port) +
                             ": cannot listen there (" + error.message() +
                             "); give a port that is free, or leave it out for any free one");
  }
  const std::string port = std::to_string(tcp_acceptor->local_endpoint().port());
  const auto with_port = [&](const std::string& name) {
    return (name.find(':') == std::string::npos ? name : "[" + name + "]") + ":" + port;
  };
  listening = with_port(options.listen_host);
  advertised =
      with_port(options.advertise_host.empty() ? options.listen_host : options.advertise_host);
  accept(tcp_acceptor);
}

void LaneHandshake::Impl::listen_unix() {
  std::filesystem::path folder = options.socket_folder;
  // More than one peer can live in a process (in tests, they do).
  const std::string name =
      "lane-" + std::to_string(::getpid()) + "-" + std::to_string(randombytes_random());
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if ((std::filesystem::absolute(folder, error) / name).string().size() > unix_path_max) {
    std::string pattern = "/tmp/grapevine-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) return;
    folder = own_folder = pattern;
  }
  ::chmod(folder.c_str(), S_IRWXU);
  unix_path = std::filesystem::absolute(folder, error) / name;
  unix_acceptor = std::make_shared<stream_protocol::acceptor>(io);
  asio::error_code failed;
  unix_acceptor->open(stream_protocol(), failed);
  if (!failed) unix_acceptor->bind(stream_protocol::endpoint(unix_path.string()), failed);
  if (!failed) unix_acceptor->listen(asio::socket_base::max_listen_connections, failed);
  if (failed) {
    callbacks.fact(LaneListenFailed{.why = failed.message()});
    unix_acceptor.reset();
    unix_path.clear();
    return;
  }
  accept(unix_acceptor);
}

template <class Acceptor>
void LaneHandshake::Impl::accept(std::shared_ptr<Acceptor> acceptor) {
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
        welcome(Socket(std::move(socket)), std::is_same_v<Acceptor, stream_protocol::acceptor>);
        accept(acceptor);
      });
}

void LaneHandshake::Impl::send_away(const ConnectionPtr& connection) {
  ++refused;
  strangers.erase(connection);
  connection->close();
}

/// A connection came in. Its first byte says whether it speaks TLS or plain.
void LaneHandshake::Impl::welcome(Socket socket, bool at_home) {
  if (strangers.size() >= strangers_max) {
    ++refused;
    return;
  }
  auto connection = std::make_shared<LaneConnection>(std::move(socket));
  strangers.insert(connection);
  auto first = std::make_shared<char>(0);
  connection->socket.async_receive(
      asio::buffer(first.get(), 1), asio::socket_base::message_peek,
      [this, connection, first, at_home, weak = std::weak_ptr(alive)](asio::error_code error,
                                                                      std::size_t) {
        if (weak.expired()) return;
        if (!error && *first == plain_first_byte && (at_home || options.plain)) {
          welcome_plain(connection, at_home);
        } else if (!error && *first == tls_first_byte && !at_home) {
          welcome_tls(connection);
        } else {
          send_away(connection);
        }
      });
}

void LaneHandshake::Impl::welcome_tls(const ConnectionPtr& connection) {
  connection->tls.emplace(connection->socket, tls.context());
  connection->tls->async_handshake(
      asio::ssl::stream_base::server,
      [this, connection, weak = std::weak_ptr(alive)](asio::error_code error) {
        if (weak.expired()) return;
        SSL* ssl = connection->tls->native_handle();
        if (error || !LaneTls::is_mutual(ssl)) {
          send_away(connection);
          return;
        }
        strangers.erase(connection);
        connection->kind = "tls";
        callbacks.accepted(LaneTls::lane_of(ssl), connection);
      });
}

void LaneHandshake::Impl::welcome_plain(const ConnectionPtr& connection, bool at_home) {
  if (at_home) connection->ring_out = RingWriter::make();
  auto arriving = std::make_shared<Arriving>();
  await_proof(connection, arriving, true, [this, connection, arriving, at_home](bool holds) {
    const std::uint64_t lane = arriving->proof.lane;
    const bool complete = !at_home || (holds && take_memory(*connection, arriving->descriptors));
    if (!holds || !complete ||
        !send_proof(*connection, *token_of(lane), lane, false, options.lent.get())) {
      send_away(connection);
      return;
    }
    strangers.erase(connection);
    connection->kind = at_home ? "unix" : "plain";
    callbacks.accepted(lane, connection);
  });
}

void LaneHandshake::Impl::await_proof(const ConnectionPtr& connection,
                                      std::shared_ptr<Arriving> arriving, bool by_dialler,
                                      std::function<void(bool)> then) {
  connection->socket.async_wait(
      asio::socket_base::wait_read, [this, connection, arriving, by_dialler, then = std::move(then),
                                     weak = std::weak_ptr(alive)](asio::error_code error) mutable {
        if (weak.expired()) return;
        if (error || !take_proof(*connection, *arriving)) {
          then(false);
          return;
        }
        if (arriving->got < sizeof(Proof)) {
          await_proof(connection, std::move(arriving), by_dialler, std::move(then));
          return;
        }
        const Proof& proof = arriving->proof;
        const auto token = token_of(proof.lane);
        then(proof.mark == plain_first_byte && proof.version == Proof{}.version && token &&
             same_proof(proof.proof, lane_proof(*token, proof.lane, by_dialler)));
      });
}

std::optional<LaneToken> LaneHandshake::Impl::token_of(std::uint64_t lane) const {
  const auto found = expected.find(lane);
  return found == expected.end() ? std::nullopt : std::optional(found->second.token);
}

void LaneHandshake::Impl::dial_unix(const LaneInvite& invite, Dialled done) {
  auto socket = std::make_shared<stream_protocol::socket>(io);
  socket->async_connect(stream_protocol::endpoint(invite.unix_path),
                        [this, invite, socket, done = std::move(done),
                         weak = std::weak_ptr(alive)](asio::error_code error) mutable {
                          if (weak.expired()) return;
                          if (error) {
                            dial_tcp(invite, std::move(done));
                            return;
                          }
                          auto connection =
                              std::make_shared<LaneConnection>(Socket(std::move(*socket)));
                          prove_plain(invite, connection, true, std::move(done));
                        });
}

/// Tries one address after another; `then` gets the first connection, or none.
void LaneHandshake::Impl::connect(std::shared_ptr<Attempt> attempt,
                                  std::function<void(std::optional<Socket>)> then) {
  while (attempt->next != attempt->addresses.end()) {
    const tcp::endpoint address = attempt->next++->endpoint();
    tcp::socket& socket = attempt->socket = tcp::socket(io);
    asio::error_code error;
    socket.open(address.protocol(), error);
    if (!error && source) socket.bind(*source, error);
    if (error) continue;
    begin_unpaced(socket.native_handle());
    socket.async_connect(address, [this, attempt, then = std::move(then),
                                   weak = std::weak_ptr(alive)](asio::error_code failed) mutable {
      if (weak.expired()) return;
      if (failed) {
        connect(std::move(attempt), std::move(then));
      } else {
        then(Socket(std::move(attempt->socket)));
      }
    });
    return;
  }
  then(std::nullopt);
}

void LaneHandshake::Impl::dial_tcp(const LaneInvite& invite, Dialled done) {
  const auto colon = invite.address.rfind(':');
  if (colon == std::string::npos || !options.remote) {
    done(nullptr);
    return;
  }
  std::string name = invite.address.substr(0, colon);
  if (name.starts_with('[') && name.ends_with(']')) name = name.substr(1, name.size() - 2);
  auto resolver = std::make_shared<tcp::resolver>(io);
  resolver->async_resolve(
      name, invite.address.substr(colon + 1),
      [this, invite, resolver, done = std::move(done), weak = std::weak_ptr(alive)](
          asio::error_code error, tcp::resolver::results_type found) mutable {
        if (weak.expired()) return;
        if (error) {
          done(nullptr);
          return;
        }
        connect(std::make_shared<Attempt>(io, found),
                [this, invite, done = std::move(done)](std::optional<Socket> socket) mutable {
                  if (!socket) {
                    done(nullptr);
                    return;
                  }
                  auto connection = std::make_shared<LaneConnection>(std::move(*socket));
                  if (options.plain) {
                    prove_plain(invite, connection, false, std::move(done));
                  } else {
                    prove_tls(invite, connection, std::move(done));
                  }
                });
      });
}

void LaneHandshake::Impl::prove_tls(const LaneInvite& invite, const ConnectionPtr& connection,
                                    Dialled done) {
  strangers.insert(connection);
  connection->kind = "tls";
  connection->tls.emplace(connection->socket, tls.context());
  tls.offer(connection->tls->native_handle(), invite.lane);
  connection->tls->async_handshake(
      asio::ssl::stream_base::client, [this, connection, done = std::move(done),
                                       weak = std::weak_ptr(alive)](asio::error_code error) {
        if (weak.expired()) return;
        strangers.erase(connection);
        const bool proved = !error && LaneTls::is_mutual(connection->tls->native_handle());
        if (!proved) connection->close();
        done(proved ? connection : nullptr);
      });
}

void LaneHandshake::Impl::prove_plain(const LaneInvite& invite, const ConnectionPtr& connection,
                                      bool at_home, Dialled done) {
  strangers.insert(connection);
  connection->kind = at_home ? "unix" : "plain";
  if (at_home) connection->ring_out = RingWriter::make();
  auto arriving = std::make_shared<Arriving>();
  const auto judged = [this, invite, connection, arriving, at_home,
                       done = std::move(done)](bool holds) {
    strangers.erase(connection);
    const bool complete = !at_home || (holds && take_memory(*connection, arriving->descriptors));
    if (holds && complete && arriving->proof.lane == invite.lane) {
      done(connection);
      return;
    }
    connection->close();
    if (at_home) {
      dial_tcp(invite, done);
    } else {
      done(nullptr);
    }
  };
  const auto token = token_of(invite.lane);
  const bool complete = token && (!at_home || connection->ring_out);
  if (complete && send_proof(*connection, *token, invite.lane, true, options.lent.get())) {
    await_proof(connection, arriving, false, judged);
  } else {
    judged(false);
  }
}

LaneHandshake::LaneHandshake(asio::io_context& io, Options options, Callbacks callbacks)
    : impl_(std::make_unique<Impl>(io, std::move(options), std::move(callbacks))) {}

LaneHandshake::~LaneHandshake() = default;

const std::string& LaneHandshake::listening() const { return impl_->listening; }
const std::string& LaneHandshake::advertised() const { return impl_->advertised; }

void LaneHandshake::describe(LaneInvite& invite) const {
  invite.address = impl_->advertised;
  invite.unix_path = impl_->unix_path.string();
  invite.host = impl_->host;
}

void LaneHandshake::expect(std::uint64_t lane, const LaneToken& token) {
  impl_->expected[lane] = {token, Clock::now() + invitation_lasts};
}

bool LaneHandshake::expects(std::uint64_t lane) const { return impl_->expected.contains(lane); }

void LaneHandshake::expect_no_more(std::uint64_t lane) { impl_->expected.erase(lane); }

void LaneHandshake::dial(const LaneInvite& invite, Dialled done) {
  const bool at_home = impl_->options.local && invite.host == impl_->host &&
                       !invite.unix_path.empty() && invite.unix_path.size() <= unix_path_max;
  if (at_home) {
    impl_->dial_unix(invite, std::move(done));
  } else {
    impl_->dial_tcp(invite, std::move(done));
  }
}

void LaneHandshake::tidy_up() {
  const auto now = Clock::now();
  std::erase_if(impl_->expected, [&](const auto& item) { return now > item.second.until; });
  std::erase_if(impl_->strangers, [&](const ConnectionPtr& stranger) {
    if (now - stranger->began < proof_deadline) return false;
    ++impl_->refused;
    stranger->close();
    return true;
  });
}

std::uint64_t LaneHandshake::refused() const { return impl_->refused; }

}  // namespace gv
