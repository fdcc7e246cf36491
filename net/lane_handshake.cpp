// Listens for lanes, and authenticates the peers that connect.
#include "net/lane_handshake.hpp"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <utility>

#include "net/descriptor.hpp"
#include "net/host_address.hpp"
#include "net/lane_handshake_impl.hpp"
#include "net/socket_address.hpp"
#include "net/tcp_port.hpp"

namespace gv {
namespace {

using asio::ip::tcp;
using asio::local::stream_protocol;

constexpr auto invitation_lasts = std::chrono::seconds(5);
constexpr char tls_first_byte = 0x16;  ///< The type of a TLS handshake record.

/// Returns a number that is equal for processes on the same running kernel and in the same network
/// namespace. Only such processes try a Unix socket.
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

}  // namespace

LaneHandshake::Impl::Impl(asio::io_context& loop, Options given, Callbacks calls)
    : io(loop),
      options(std::move(given)),
      callbacks(std::move(calls)),
      tls([this](std::uint64_t lane) { return token_of(lane); },
          [this](const SSL* ssl) { named(ssl); }),
      host(host_tag()) {
  if (!options.dial_from.empty()) choose_source();
  if (!options.listen_host.empty()) listen_tcp();
  if (options.local) listen_unix();
}

LaneHandshake::Impl::~Impl() {
  alive.reset();
  while (!dials.empty()) end_dial(dials.begin()->first);
  std::error_code ignored;
  if (!unix_path.empty()) std::filesystem::remove(unix_path, ignored);
}

/// Checks the source address now, because a wrong one would make every later dial fail.
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
  tcp::acceptor acceptor = open_tcp_port(
      io, options.listen_host, options.port, "--lane-port " + std::to_string(options.port),
      "give a port that is free, or leave it out for any free one");
  begin_unpaced(acceptor.native_handle());  // Accepted sockets inherit this setting.
  const std::string port = std::to_string(acceptor.local_endpoint().port());
  const auto with_port = [&](const std::string& name) {
    return (name.find(':') == std::string::npos ? name : "[" + name + "]") + ":" + port;
  };
  const std::string address = acceptor.local_endpoint().address().to_string();
  listening = with_port(address);
  advertised = with_port(options.advertise_host.empty() ? address : options.advertise_host);
  tcp_listener.emplace(
      io, Descriptor(acceptor.release()), LaneListener::Options{.places = usual_places()},
      [this](const ConnectionPtr& connection) { welcome(*tcp_listener, connection, false); });
}

void LaneHandshake::Impl::listen_unix() {
  const std::filesystem::path& folder = options.socket_folder;
  // The name contains a random number, because several peers may share a process (as in tests).
  const std::string name =
      "lane-" + std::to_string(::getpid()) + "-" + std::to_string(randombytes_random());
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  ::chmod(folder.c_str(), S_IRWXU);
  unix_path = std::filesystem::absolute(folder, error) / name;
  const Descriptor opened(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  stream_protocol::acceptor acceptor(io);
  asio::error_code failed;
  acceptor.open(stream_protocol(), failed);
  if (!failed) acceptor.bind(stream_protocol::endpoint(socket_address(opened, name)), failed);
  if (!failed) acceptor.listen(asio::socket_base::max_listen_connections, failed);
  if (!failed) acceptor.non_blocking(true, failed);
  if (failed) {
    callbacks.fact(LaneListenFailed{.why = failed.message()});
    unix_path.clear();
    return;
  }
  unix_listener.emplace(
      io, Descriptor(acceptor.release()), LaneListener::Options{.places = usual_places()},
      [this](const ConnectionPtr& connection) { welcome(*unix_listener, connection, true); });
}

/// Handles a new connection. Its first byte shows whether it uses TLS or plain TCP.
void LaneHandshake::Impl::welcome(LaneListener& listener, const ConnectionPtr& connection,
                                  bool at_home) {
  // The partner's first bytes have usually arrived already. Reading them now keeps the partner from
  // losing its place in the meantime.
  char first = 0;
  if (::recv(connection->socket.native_handle(), &first, 1, MSG_PEEK | MSG_DONTWAIT) == 1) {
    begin(listener, connection, at_home, first);
    return;
  }
  auto later = std::make_shared<char>(0);
  connection->socket.async_receive(
      asio::buffer(later.get(), 1), asio::socket_base::message_peek,
      [this, &listener, connection, later, at_home, weak = std::weak_ptr(alive)](
          asio::error_code error, std::size_t) {
        if (weak.expired() || !listener.holds(connection)) return;
        if (error) {
          listener.send_away(connection);
        } else {
          begin(listener, connection, at_home, *later);
        }
      });
}

void LaneHandshake::Impl::begin(LaneListener& listener, const ConnectionPtr& connection,
                                bool at_home, char first) {
  if (first == plain_first_byte && (at_home || options.plain || relays())) {
    welcome_plain(listener, connection, at_home);
  } else if (first == tls_first_byte && !at_home) {
    welcome_tls(listener, connection);
  } else {
    listener.send_away(connection);
  }
}

void LaneHandshake::Impl::welcome_tls(LaneListener& listener, const ConnectionPtr& connection) {
  connection->tls.emplace(connection->socket, tls.context());
  connection->tls->async_handshake(
      asio::ssl::stream_base::server,
      [this, &listener, connection, weak = std::weak_ptr(alive)](asio::error_code error) {
        if (weak.expired() || !listener.holds(connection)) return;
        SSL* ssl = connection->tls->native_handle();
        const auto proved = !error && LaneTls::is_mutual(ssl)
                                ? proved_by(LaneTls::lane_of(ssl), false)
                                : std::nullopt;
        if (!proved) {
          listener.send_away(connection);
          return;
        }
        listener.release(connection);
        connection->kind = "tls";
        callbacks.accepted(*proved, connection);
      });
}

/// Notes that a connection has named an expected lane. The connection has not proved itself yet.
void LaneHandshake::Impl::named(const SSL* ssl) {
  if (!tcp_listener) return;
  const ConnectionPtr connection = tcp_listener->find(
      [ssl](LaneConnection& each) { return each.tls && each.tls->native_handle() == ssl; });
  if (connection) tcp_listener->keep(*connection);
}

void LaneHandshake::Impl::welcome_plain(LaneListener& listener, const ConnectionPtr& connection,
                                        bool at_home) {
  if (at_home) connection->ring_out = RingWriter::make();
  auto arriving = std::make_shared<ArrivingProof>();
  const auto judged = [this, &listener, connection, arriving, at_home](bool holds) {
    if (!listener.holds(connection)) return;
    const std::uint64_t lane = arriving->proof.lane;
    const auto proved = holds ? proved_by(lane, !at_home) : std::nullopt;
    const bool complete = proved && (!at_home || take_memory(*connection, arriving->descriptors));
    if (!complete || !send_proof(*connection, *token_of(lane), lane, false, options.lent.get())) {
      listener.send_away(connection);
      return;
    }
    listener.release(connection);
    connection->kind = at_home ? "unix" : "plain";
    callbacks.accepted(*proved, connection);
  };
  await_proof(connection, arriving, true, judged);
}

void LaneHandshake::Impl::await_proof(const ConnectionPtr& connection,
                                      std::shared_ptr<ArrivingProof> arriving, bool by_dialler,
                                      std::function<void(bool)> then) {
  connection->socket.async_wait(
      asio::socket_base::wait_read, [this, connection, arriving, by_dialler, then = std::move(then),
                                     weak = std::weak_ptr(alive)](asio::error_code error) mutable {
        if (weak.expired()) return;
        if (error || !take_proof(*connection, *arriving)) {
          then(false);
        } else if (arriving->is_complete()) {
          const auto token = token_of(arriving->proof.lane);
          then(token && arriving->holds(*token, by_dialler));
        } else {
          await_proof(connection, std::move(arriving), by_dialler, std::move(then));
        }
      });
}

/// True if lane `lane` uses TCP without TLS.
bool LaneHandshake::Impl::goes_plain(std::uint64_t lane) const {
  const auto found = expected.find(lane);
  return options.plain || (found != expected.end() && found->second.use == Use::relay);
}

/// True if exactly this kind of connection is expected.
bool LaneHandshake::Impl::is_expected(const Proved& wanted) const {
  const auto found = expected.find(wanted.lane);
  return found != expected.end() && found->second.peer == wanted.peer &&
         found->second.use == wanted.use;
}

/// Returns the result for an incoming connection that has proved the token of `lane`. `is_plain` is
/// true for plain TCP. Returns nullopt if the lane was expected over a different transport.
std::optional<LaneHandshake::Proved> LaneHandshake::Impl::proved_by(std::uint64_t lane,
                                                                    bool is_plain) const {
  const auto found = expected.find(lane);
  if (found == expected.end()) return std::nullopt;
  const auto& [token, until, use, peer] = found->second;
  const bool is_way = is_plain ? goes_plain(lane) && use != Use::behind_relay : use == Use::lane;
  return is_way ? std::optional(Proved{.lane = lane, .peer = peer, .use = use}) : std::nullopt;
}

bool LaneHandshake::Impl::relays() const {
  return std::ranges::any_of(expected,
                             [](const auto& item) { return item.second.use == Use::relay; });
}

std::optional<LaneToken> LaneHandshake::Impl::token_of(std::uint64_t lane) const {
  const auto found = expected.find(lane);
  return found == expected.end() ? std::nullopt : std::optional(found->second.token);
}

void LaneHandshake::Impl::update_listeners() {
  const bool expecting = std::ranges::any_of(
      expected, [this](const auto& lane) { return !dials.contains(lane.first); });
  if (tcp_listener) tcp_listener->set_expecting(expecting);
  if (unix_listener) unix_listener->set_expecting(expecting);
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

bool LaneHandshake::expect(std::uint64_t lane, const LaneToken& token, Use use, PeerId peer) {
  if (uses(lane)) return false;
  impl_->expected[lane] = {token, Impl::Clock::now() + invitation_lasts, use, peer};
  impl_->update_listeners();
  return true;
}

bool LaneHandshake::expects(std::uint64_t lane) const { return impl_->expected.contains(lane); }

bool LaneHandshake::uses(std::uint64_t lane) const {
  return expects(lane) || impl_->dials.contains(lane);
}

void LaneHandshake::expect_no_more(std::uint64_t lane) {
  impl_->expected.erase(lane);
  impl_->end_dial(lane);
  impl_->update_listeners();
}

void LaneHandshake::tidy_up() {
  const auto now = Impl::Clock::now();
  std::erase_if(impl_->expected, [&](const auto& item) { return now > item.second.until; });
  if (impl_->tcp_listener) impl_->tcp_listener->tidy_up();
  if (impl_->unix_listener) impl_->unix_listener->tidy_up();
  impl_->end_late_dials();
  impl_->update_listeners();
}

std::uint64_t LaneHandshake::refused() const {
  std::uint64_t refused = impl_->dials_failed;
  if (impl_->tcp_listener) refused += impl_->tcp_listener->refused();
  if (impl_->unix_listener) refused += impl_->unix_listener->refused();
  return refused;
}

}  // namespace gv
