// Guests with tickets and visitors with certificates, over real sockets.
#include <pthread.h>

#include <array>
#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <variant>
#include <vector>

#include "net/admission.hpp"
#include "net/control_links.hpp"
#include "net/key_signer.hpp"
#include "net/wire.hpp"

namespace gv {
namespace {

using asio::ip::tcp;
using namespace std::chrono_literals;

/// A peer that admits guests with one ticket and runs on its own thread.
struct Inviter {
  Inviter() {
    ticket.inviter = identity.public_key;
    ticket.swarm = swarm.public_key;
    ticket.secret = generate_ticket_secret();
    links.emplace(
        io,
        ControlLinks::Options{
            .identity = identity, .name = "inviter", .listen = "127.0.0.1:0", .session = 1},
        ControlLinks::Callbacks{
            .message = [](const Envelope&) {},
            .invite = [](PeerId, const LaneInvite&) {},
            .contact = [](PeerId) {},
            .restarted = [](PeerId) {},
            .fact =
                [this](const Fact& fact) { refusals += std::holds_alternative<LinkRefused>(fact); },
            .join = [this](const PublicKey& guest,
                           const JoinRequest& request) { return answer(guest, request); },
            .shown = [this](const Certificates& chain) { shown = chain.certificates.size(); }});
    ticket.addresses = {links->listening()};
    links->admit_guests({guest_keys(ticket).public_key, visitor_keys(ticket.swarm).public_key});
    thread = std::thread([this] {
      while (!stopped) io.run_one_for(5ms);
    });
  }
  ~Inviter() {
    stopped = true;
    thread.join();
  }

  JoinAnswer answer(const PublicKey& guest, const JoinRequest& request) {
    ++asked;
    {
      const std::lock_guard lock(mutex);
      const std::vector<std::byte> frame = encode(request);
      frames.emplace_back(reinterpret_cast<const char*>(frame.data()), frame.size());
    }
    const auto bytes = request_bytes(request, swarm.public_key, identity.public_key,
                                     guest_keys(ticket).public_key);
    is_proved = guest == guest_keys(ticket).public_key &&
                KeySigner(identity, {}).verify_key(request.key, bytes, request.proof);
    if (refuses) return {.refusal = "this ticket has been used"};
    return {.certificates = {{.swarm = swarm.public_key, .key = request.key, .name = request.name}},
            .config = {"[run]\n", "steps = 5\n"}};
  }

  KeyPair identity = generate_key_pair(), swarm = generate_key_pair();
  Ticket ticket;
  asio::io_context io;
  std::optional<ControlLinks> links;
  std::thread thread;
  std::atomic<bool> stopped = false, refuses = false, is_proved = false;
  std::atomic<int> asked = 0, refusals = 0;
  std::atomic<std::size_t> shown = 0;
  std::mutex mutex;
  std::vector<std::string> frames;  ///< The requests as they were sent, without encryption.
};

/// Passes connections on to a peer, and keeps the bytes that the dialling sides have sent.
class TappedWire {
 public:
  /// Bytes arrive `delay` after they were sent.
  explicit TappedWire(const std::string& there, std::chrono::milliseconds delay = 0ms)
      : there_(endpoint_of(there)),
        delay_(delay),
        acceptor_(io_, tcp::endpoint(asio::ip::address_v4::loopback(), 0)),
        address_("127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port())) {
    accept();
    thread_ = std::thread([this] { io_.run(); });
  }
  ~TappedWire() {
    io_.stop();
    thread_.join();
  }

  static tcp::endpoint endpoint_of(const std::string& address) {
    const std::string port = address.substr(address.rfind(':') + 1);
    return {asio::ip::address_v4::loopback(), static_cast<std::uint16_t>(std::stoi(port))};
  }
  const std::string& address() const { return address_; }

  /// The bytes that the dialling side of each connection has sent so far.
  std::vector<std::string> heard() {
    std::promise<std::vector<std::string>> all;
    asio::post(io_, [&] {
      std::vector<std::string> sent;
      for (const auto& call : calls_) sent.push_back(call->sent);
      all.set_value(std::move(sent));
    });
    return all.get_future().get();
  }

 private:
  struct Call {
    explicit Call(asio::io_context& io) : near(io), far(io), up_timer(io), down_timer(io) {}

    tcp::socket near, far;
    asio::steady_timer up_timer, down_timer;
    std::array<char, 4096> up{}, down{};
    std::string sent;
  };

  void accept() {
    const auto call = std::make_shared<Call>(io_);
    acceptor_.async_accept(call->near, [this, call](asio::error_code error) {
      if (error) return;
      asio::error_code failed;
      call->far.connect(there_, failed);
      calls_.push_back(call);
      pass(call, call->near, call->far, call->up, call->up_timer, &call->sent);
      pass(call, call->far, call->near, call->down, call->down_timer, nullptr);
      accept();
    });
  }

  void pass(const std::shared_ptr<Call>& call, tcp::socket& from, tcp::socket& to,
            std::array<char, 4096>& buffer, asio::steady_timer& timer, std::string* tap) {
    from.async_read_some(asio::buffer(buffer), [this, call, &from, &to, &buffer, &timer, tap](
                                                   asio::error_code error, std::size_t size) {
      asio::error_code failed;
      if (error) {
        to.close(failed);
        return;
      }
      if (tap != nullptr) tap->append(buffer.data(), size);
      timer.expires_after(delay_);
      timer.async_wait([this, call, &from, &to, &buffer, &timer, tap, size](asio::error_code) {
        asio::error_code ended;
        asio::write(to, asio::buffer(buffer.data(), size), ended);
        pass(call, from, to, buffer, timer, tap);
      });
    });
  }

  asio::io_context io_;
  tcp::endpoint there_;
  std::chrono::milliseconds delay_;
  tcp::acceptor acceptor_;
  std::string address_;
  std::vector<std::shared_ptr<Call>> calls_;
  std::thread thread_;
};

/// Sends bytes to a peer. Returns true if the peer ends the connection soon.
bool is_hung_up_on(const std::string& address, const std::string& bytes) {
  asio::io_context io;
  tcp::socket socket(io);
  socket.connect(TappedWire::endpoint_of(address));
  asio::error_code failed;
  asio::write(socket, asio::buffer(bytes), failed);
  std::array<char, 4096> answer{};
  bool is_over = false;
  std::function<void()> read = [&] {
    socket.async_read_some(asio::buffer(answer), [&](asio::error_code error, std::size_t) {
      is_over = bool(error);
      if (!is_over) read();
    });
  };
  read();
  io.run_for(20s);
  return is_over;
}

template <class Bytes>
std::string text_of(const Bytes& bytes) {
  return {bytes.begin(), bytes.end()};
}

/// True if the bytes contain any eight consecutive bytes of the secret.
bool has_part_of(std::string_view bytes, std::string_view secret) {
  for (std::size_t at = 0; at + 8 <= secret.size(); ++at) {
    if (bytes.find(secret.substr(at, 8)) != std::string_view::npos) return true;
  }
  return false;
}

/// A ticket's secret, the keys that follow from the secret, and the secret in several text forms.
std::vector<std::string> secrets_of(const Ticket& ticket) {
  const KeyPair guest = guest_keys(ticket);
  const CurveKeyPair curve = curve_keys(guest);
  std::string hex;
  for (const std::uint8_t byte : ticket.secret) {
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  // The last 20 characters, after "gv1_" and two keys, contain only bits of the secret.
  const std::string letters = to_text(ticket).substr(4 + 86, 20);
  return {text_of(ticket.secret),
          text_of(guest.secret_key),
          text_of(guest.public_key),
          text_of(curve.secret_key),
          text_of(curve.public_key),
          hex,
          letters};
}

}  // namespace

TEST_CASE("a guest with a ticket proves itself and gets its certificate and the config") {
  Inviter inviter;
  const KeyPair own = generate_key_pair();
  const Admission in = ask_to_join(inviter.ticket, own, "laptop");
  CHECK(in.problem == "");
  CHECK(inviter.is_proved);
  REQUIRE(in.answer.certificates.size() == 1);
  CHECK(in.answer.certificates[0].name == "laptop");
  CHECK(in.answer.config.size() == 2);

  inviter.refuses = true;
  const Admission late = ask_to_join(inviter.ticket, own, "laptop");
  CHECK(late.problem == "this ticket has been used");
  CHECK_FALSE(late.remedy.empty());
}

TEST_CASE("many machines join at once by one ticket") {
  Inviter inviter;
  std::atomic<int> joined = 0;
  std::vector<std::thread> guests;
  for (int i = 0; i < 40; ++i) {
    guests.emplace_back([&] {
      joined +=
          ask_to_join(inviter.ticket, generate_key_pair(), "laptop", {30s, 30s}).problem.empty();
    });
  }
  for (std::thread& guest : guests) guest.join();
  CHECK(joined == 40);
}

TEST_CASE("a guest joins over a network with long round trips") {
  Inviter inviter;
  TappedWire wire(inviter.links->listening(), 250ms);
  Ticket ticket = inviter.ticket;
  ticket.addresses = {wire.address()};
  const Admission in = ask_to_join(ticket, generate_key_pair(), "laptop");
  CHECK(in.problem == "");
  // The first connection was given up too soon.
  CHECK(wire.heard().size() > 1);
}

TEST_CASE("signals while a guest waits do not end its join") {
  struct sigaction heard {};
  struct sigaction before {};
  heard.sa_handler = [](int) {};  // Without SA_RESTART, signals make system calls return early.
  REQUIRE(::sigaction(SIGUSR1, &heard, &before) == 0);
  Inviter inviter;
  std::atomic<bool> is_over = false;
  Admission in;
  std::thread guest([&] {
    in = ask_to_join(inviter.ticket, generate_key_pair(), "laptop");
    is_over = true;
  });
  while (!is_over) {
    ::pthread_kill(guest.native_handle(), SIGUSR1);
    std::this_thread::yield();
  }
  guest.join();
  REQUIRE(::sigaction(SIGUSR1, &before, nullptr) == 0);
  CHECK(in.problem == "");
  CHECK(inviter.is_proved);
}

TEST_CASE("a guest without a ticket of that peer gets no answer and the reason in one line") {
  Inviter inviter;
  const KeyPair own = generate_key_pair();
  Ticket guessed = inviter.ticket;
  guessed.secret[0] ^= 1;
  CHECK(ask_to_join(guessed, own, "laptop", {1s, 1s}).problem ==
        "the peer there does not know this ticket");
  Ticket foreign = inviter.ticket;
  foreign.inviter = generate_key_pair().public_key;
  const Admission elsewhere = ask_to_join(foreign, own, "laptop", {1s, 1s});
  CHECK_FALSE(elsewhere.problem.empty());
  CHECK_FALSE(elsewhere.is_silent);
  Ticket nowhere = inviter.ticket;
  nowhere.addresses = {"127.0.0.1:9"};
  const Admission none = ask_to_join(nowhere, own, "laptop", {10s, 300ms});
  CHECK(none.problem == "no peer answers there");
  CHECK(none.is_silent);
  // A join counts as silent only if no peer answers at any of the ticket's addresses.
  guessed.addresses.emplace_back("127.0.0.1:9");
  CHECK_FALSE(ask_to_join(guessed, own, "laptop", {1s, 300ms}).is_silent);
  CHECK(inviter.asked == 0);
  CHECK(inviter.links->counters().messages_received == 0);
}

TEST_CASE("a recorded join that is sent again is hung up on") {
  Inviter inviter;
  TappedWire wire(inviter.links->listening());
  Ticket ticket = inviter.ticket;
  ticket.addresses = {wire.address()};
  REQUIRE(ask_to_join(ticket, generate_key_pair(), "laptop").problem == "");
  const std::vector<std::string> calls = wire.heard();
  REQUIRE_FALSE(calls.empty());
  const std::string& call = calls.back();
  REQUIRE(call.size() > 300);  // The call consists of a greeting, a handshake and the request.
  const int asked = inviter.asked;
  CHECK(is_hung_up_on(inviter.links->listening(), call));
  CHECK(is_hung_up_on(inviter.links->listening(), call));
  const auto give_up = std::chrono::steady_clock::now() + 10s;
  while (inviter.refusals == 0 && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::yield();
  }
  CHECK(inviter.refusals > 0);
  CHECK(inviter.asked == asked);
}

TEST_CASE("no part of a ticket's secret crosses the wire at a first request or a later one") {
  Inviter inviter;
  TappedWire wire(inviter.links->listening());
  Ticket ticket = inviter.ticket;
  ticket.addresses = {wire.address()};
  const KeyPair own = generate_key_pair();
  REQUIRE(ask_to_join(ticket, own, "laptop").problem == "");
  REQUIRE(ask_to_join(ticket, own, "laptop").problem == "");
  inviter.refuses = true;
  REQUIRE(ask_to_join(ticket, own, "laptop").problem == "this ticket has been used");
  // A secret that the peer does not know must not cross the wire either.
  Ticket unknown = ticket;
  unknown.secret = generate_ticket_secret();
  REQUIRE_FALSE(ask_to_join(unknown, own, "laptop", {1s, 1s}).problem.empty());

  std::vector<std::string> sent = wire.heard();
  REQUIRE(sent.size() >= 4);
  const std::lock_guard lock(inviter.mutex);
  REQUIRE(inviter.frames.size() >= 3);
  sent.insert(sent.end(), inviter.frames.begin(), inviter.frames.end());
  for (const Ticket& each : {ticket, unknown}) {
    for (const std::string& secret : secrets_of(each)) {
      CHECK(has_part_of("before " + secret.substr(4) + " behind", secret));
      for (const std::string& bytes : sent) CHECK_FALSE(has_part_of(bytes, secret));
    }
  }
  CHECK(has_part_of(to_text(ticket), secrets_of(ticket).back()));
}

TEST_CASE("a visitor may show certificates and gets nothing else") {
  Inviter inviter;
  asio::io_context io;
  ControlLinks visitor(io, {.identity = generate_key_pair(), .name = "visitor", .session = 2},
                       {.message = [](const Envelope&) {},
                        .invite = [](PeerId, const LaneInvite&) {},
                        .contact = [](PeerId) {},
                        .restarted = [](PeerId) {},
                        .fact = [](const Fact&) {}});
  const Certificates chain{.certificates = {{.name = "a"}, {.name = "b"}}};
  visitor.show(inviter.identity.public_key, inviter.ticket.addresses[0], inviter.ticket.swarm,
               chain);
  const auto give_up = std::chrono::steady_clock::now() + 10s;
  while (inviter.shown == 0 && std::chrono::steady_clock::now() < give_up) io.run_one_for(5ms);
  CHECK(inviter.shown == 2);
  CHECK(inviter.asked == 0);
}

}  // namespace gv
