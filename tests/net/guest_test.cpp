// Guests with tickets and visitors with certificates, over real sockets.
#include <pthread.h>

#include <asio/io_context.hpp>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "net/admission.hpp"
#include "net/control_links.hpp"
#include "net/key_signer.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

/// A peer that admits the guests with one ticket, on a thread of its own.
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
            .fact = [](const Fact&) {},
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
  std::atomic<int> asked = 0;
  std::atomic<std::size_t> shown = 0;
};

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
      joined += ask_to_join(inviter.ticket, generate_key_pair(), "laptop", 30s).problem.empty();
    });
  }
  for (std::thread& guest : guests) guest.join();
  CHECK(joined == 40);
}

TEST_CASE("signals while a guest waits do not end its join") {
  struct sigaction heard {};
  struct sigaction before {};
  heard.sa_handler = [](int) {};  // Without SA_RESTART, system calls return early.
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
  CHECK(ask_to_join(guessed, own, "laptop", 1s).problem ==
        "the peer there does not know this ticket");
  Ticket foreign = inviter.ticket;
  foreign.inviter = generate_key_pair().public_key;
  const Admission elsewhere = ask_to_join(foreign, own, "laptop", 1s);
  CHECK_FALSE(elsewhere.problem.empty());
  Ticket nowhere = inviter.ticket;
  nowhere.addresses = {"127.0.0.1:9"};
  CHECK(ask_to_join(nowhere, own, "laptop", 300ms).problem == "no peer answers there");
  CHECK(inviter.asked == 0);
  CHECK(inviter.links->counters().messages_received == 0);
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
