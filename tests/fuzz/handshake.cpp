// The target `handshake`: any bytes that a stranger sends to the port or the socket for lanes.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <asio/io_context.hpp>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "base/check.hpp"
#include "net/descriptor.hpp"
#include "net/lane_handshake.hpp"
#include "tests/fuzz/target.hpp"

namespace gv::fuzz {
namespace {

constexpr std::uint64_t lane = 7;
constexpr std::uint64_t relayed = 8;
constexpr LaneToken token{1, 2, 3};
constexpr int idle_polls = 3;

sockaddr_in on_loopback(std::uint16_t port) {
  return {.sin_family = AF_INET,
          .sin_port = htons(port),
          .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)},
          .sin_zero = {}};
}

template <class Address>
Descriptor connected(int family, const Address& address) {
  Descriptor socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const bool done =
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  check(done, "the port of lanes takes connections");
  // Close the connection without leaving any state, so that the machine never runs out of ports.
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  return socket;
}

/// A peer's listeners, one for each kind of network. They live as long as the process.
class Doors {
 public:
  static Doors& instance() {
    static Doors doors;
    return doors;
  }

  /// The first byte selects the listener, and the place where the other bytes are split.
  void feed(std::span<const std::byte> bytes) {
    if (bytes.empty()) return;
    const auto choice = std::to_integer<std::size_t>(bytes[0]);
    bytes = bytes.subspan(1);
    tls_.expect(lane, token);
    // Connections for relayed streams arrive at the same port and prove themselves without TLS.
    tls_.expect(relayed, token, LaneHandshake::Use::relay);
    plain_.expect(lane, token);
    const Descriptor socket = choice % 3 == 0   ? connected(AF_INET, address_of(tls_))
                              : choice % 3 == 1 ? connected(AF_INET, address_of(plain_))
                                                : connected(AF_UNIX, unix_address());
    settle();
    const std::size_t cut = std::min(bytes.size(), choice / 3);
    for (const auto part : {bytes.first(cut), bytes.subspan(cut)}) {
      if (part.empty()) continue;
      (void)::send(socket.get(), part.data(), part.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      settle();
    }
    ::shutdown(socket.get(), SHUT_WR);
    settle();
    tls_.tidy_up();
    plain_.tidy_up();
  }

  /// Returns the first bytes that a partner sends when it dials, with or without TLS.
  Bytes first_bytes(bool by_tls) {
    const Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_in address = on_loopback(0);
    socklen_t length = sizeof address;
    check(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), length) == 0 &&
              ::listen(listener.get(), 1) == 0 &&
              ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0,
          "there is a free port");
    LaneHandshake& dialler = by_tls ? tls_ : plain_;
    dialler.expect(lane, token);
    LaneInvite invite{.lane = lane, .token = token};
    invite.address = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    dialler.dial(invite, [](ConnectionPtr) {});
    Bytes bytes(2000);
    ssize_t got = 0;
    int socket = -1;
    for (int turn = 0; turn < 2000 && got <= 0; ++turn) {
      io_.run_one_for(std::chrono::milliseconds(5));
      if (socket < 0) socket = ::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC);
      got = ::recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
    }
    const Descriptor accepted(socket);
    check(got > 0, "the dialling side speaks first");
    bytes.resize(static_cast<std::size_t>(got));
    return bytes;
  }

 private:
  Doors()
      : folder_(made_folder()),
        tls_(io_, {.listen_host = "127.0.0.1", .socket_folder = folder_}, callbacks()),
        plain_(io_, {.listen_host = "127.0.0.1", .local = false, .plain = true}, callbacks()) {}
  ~Doors() { std::filesystem::remove_all(folder_); }

  static std::filesystem::path made_folder() {
    std::string pattern = "/tmp/grapevine-fuzz-XXXXXX";
    check(::mkdtemp(pattern.data()) != nullptr, "there is room for a folder");
    return pattern;
  }

  static LaneHandshake::Callbacks callbacks() {
    return {.accepted =
                [](const LaneHandshake::Proved& proved, const ConnectionPtr& connection) {
                  const bool is_relayed = proved.use == LaneHandshake::Use::relay;
                  check(proved.lane == (is_relayed ? relayed : lane) &&
                            (!is_relayed || connection->kind == "plain"),
                        "only the lane that is expected opens");
                  connection->close();
                },
            .fact = [](Fact) {}};
  }

  static sockaddr_in address_of(const LaneHandshake& doors) {
    const std::string& text = doors.listening();
    return on_loopback(static_cast<std::uint16_t>(std::stoi(text.substr(text.rfind(':') + 1))));
  }

  sockaddr_un unix_address() const {
    LaneInvite invite;
    tls_.describe(invite);
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    std::strncpy(address.sun_path, invite.unix_path.c_str(), sizeof address.sun_path - 1);
    return address;
  }

  void settle() {
    for (int idle = 0; idle < idle_polls;) idle = io_.poll() > 0 ? 0 : idle + 1;
  }

  asio::io_context io_;
  std::filesystem::path folder_;
  LaneHandshake tls_;  ///< Also accepts connections on a Unix socket.
  LaneHandshake plain_;
};

void feed(std::span<const std::byte> bytes) { Doors::instance().feed(bytes); }

std::vector<Bytes> seeds() {
  std::vector<Bytes> found;
  const Bytes hello = Doors::instance().first_bytes(true);
  const Bytes proof = Doors::instance().first_bytes(false);
  const auto add = [&](std::uint8_t choice, const Bytes& bytes) {
    found.push_back({static_cast<std::byte>(choice)});
    found.back().insert(found.back().end(), bytes.begin(), bytes.end());
  };
  add(0, hello);
  add(90, hello);
  add(1, proof);
  add(31, proof);
  add(2, proof);
  return found;
}

}  // namespace

Target handshake_target() {
  return {.name = "handshake", .feed = feed, .seeds = seeds, .bytes_max = 2048};
}

}  // namespace gv::fuzz
