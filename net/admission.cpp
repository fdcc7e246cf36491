// The guest's side of joining by ticket, over one ZeroMQ socket and its monitor.
#include "net/admission.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "base/printable.hpp"
#include "net/allow_list.hpp"
#include "net/host_address.hpp"
#include "net/key_signer.hpp"
#include "net/socket_watch.hpp"
#include "net/wire.hpp"

namespace gv {
namespace {

using GuestClock = std::chrono::steady_clock;

constexpr int guest_events = ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
                             ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                             ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL;
constexpr std::size_t refusal_shown = 200;
/// A guest's time limit for an answer on its first connection. The limit doubles with each new
/// connection. An answer takes five round trips, and if many guests join at once, some may have to
/// wait for others.
constexpr auto ask_again = std::chrono::seconds(2);
constexpr const char* guest_monitor = "inproc://monitor.guest";

const char* const new_ticket = "ask for a new one (`grapevine invite FOLDER`)";

/// The sockets that a guest uses for one address.
struct Door {
  Door(zmq::context_t& context, const std::string& address, const Ticket& ticket)
      : dealer(context, zmq::socket_type::dealer), events(context, zmq::socket_type::pair) {
    dealer.set(zmq::sockopt::linger, 0);
    dealer.set(zmq::sockopt::ipv6, is_ipv6(address));
    // Do not reconnect. The caller opens a new connection instead.
    dealer.set(zmq::sockopt::reconnect_ivl, -1);
    dealer.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(frame_bytes_max));
    dial_as(dealer, curve_keys(guest_keys(ticket)), ticket.inviter);
    zmq_socket_monitor(dealer.handle(), guest_monitor, guest_events);
    events.set(zmq::sockopt::linger, 0);
    events.connect(guest_monitor);
    dealer.connect("tcp://" + address);
  }
  ~Door() { zmq_socket_monitor(dealer.handle(), nullptr, 0); }
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  /// The reason why the handshake failed; empty if it has not failed.
  std::string failure() {
    zmq::message_t event, where;
    if (!events.recv(event, zmq::recv_flags::dontwait)) return {};
    (void)events.recv(where, zmq::recv_flags::dontwait);
    std::uint16_t what = 0;
    if (event.size() >= sizeof what) std::memcpy(&what, event.data(), sizeof what);
    return what == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH
               ? "the peer there does not know this ticket"
               : "the peer there is not the one that made this ticket";
  }

  zmq::socket_t dealer, events;
};

/// Returns the problem with an answer that is not a refusal; empty if there is none.
std::string unsound(const JoinAnswer& answer, const Ticket& ticket, const KeyPair& own) {
  const bool is_ours = !answer.certificates.empty() &&
                       answer.certificates.front().key == own.public_key &&
                       answer.certificates.front().swarm == ticket.swarm;
  if (!is_ours) return "its answer has no certificate for this peer";
  const bool has_config =
      std::ranges::any_of(answer.config, [](const std::string& piece) { return !piece.empty(); });
  return has_config ? std::string() : "its answer has no config";
}

Admission judge(const Decoded& decoded, const Ticket& ticket, const KeyPair& own) {
  Admission admission;
  const auto* answer = decoded.frame ? std::get_if<JoinAnswer>(&*decoded.frame) : nullptr;
  if (answer == nullptr) {
    admission.problem = decoded.frame ? "the peer there answers something else" : decoded.problem;
    admission.remedy = "use the same version of grapevine on all machines";
  } else if (!answer->refusal.empty()) {
    admission.problem = printable(answer->refusal, refusal_shown);
    admission.remedy = new_ticket;
  } else {
    admission.answer = *answer;
    admission.problem = unsound(*answer, ticket, own);
    admission.remedy = new_ticket;
  }
  return admission;
}

/// Asks once, over a new connection. Returns nullopt if no answer comes in time. If the handshake
/// fails, writes the reason to `failure`.
std::optional<Admission> ask_once(const std::string& address, const Ticket& ticket,
                                  const KeyPair& own, const JoinRequest& request,
                                  GuestClock::time_point until, std::string& failure) {
  zmq::context_t context;
  try {
    Door door(context, address, ticket);
    (void)door.dealer.send(zmq::buffer(encode(request)), zmq::send_flags::dontwait);
    while (GuestClock::now() < until) {
      std::vector<zmq::pollitem_t> items = {
          {.socket = door.dealer.handle(), .fd = 0, .events = ZMQ_POLLIN},
          {.socket = door.events.handle(), .fd = 0, .events = ZMQ_POLLIN}};
      (void)await_input(std::move(items), until);
      zmq::message_t bytes;
      if (door.dealer.recv(bytes, zmq::recv_flags::dontwait)) {
        return judge(decode({static_cast<const std::byte*>(bytes.data()), bytes.size()}), ticket,
                     own);
      }
      if (const std::string why = door.failure(); !why.empty()) failure = why;
    }
  } catch (const zmq::error_t& error) {
    // A signal interrupted us, so the caller asks again.
    if (error.num() == EINTR) return std::nullopt;
    return Admission{.problem = std::string("it cannot be dialled: ") + error.what(),
                     .remedy = new_ticket};
  }
  return std::nullopt;
}

/// Asks one address until an answer comes or `patience` runs out. Asking again is necessary because
/// a peer turns some guests away if too many ask at once.
Admission ask_at(const std::string& address, const Ticket& ticket, const KeyPair& own,
                 const JoinRequest& request, const GuestPatience& patience) {
  const auto began = GuestClock::now();
  std::string failure;
  for (GuestClock::duration wait = ask_again;; wait *= 2) {
    const auto until = began + (failure.empty() ? patience.silence : patience.answer);
    if (GuestClock::now() >= until) break;
    const auto next = std::min(until, GuestClock::now() + wait);
    const auto admission = ask_once(address, ticket, own, request, next, failure);
    if (admission) return *admission;
  }
  if (!failure.empty()) return {.problem = failure, .remedy = new_ticket};
  return {.problem = "no peer answers there",
          .remedy =
              "check that the peer that made the ticket runs, and that this machine can reach "
              "it",
          .is_silent = true};
}

}  // namespace

JoinRequest join_request(const Ticket& ticket, const KeyPair& own, const std::string& name) {
  JoinRequest request{.key = own.public_key, .name = name};
  request.proof = KeySigner(own, {}).sign(
      request_bytes(request, ticket.swarm, ticket.inviter, guest_keys(ticket).public_key));
  return request;
}

Admission ask_to_join(const Ticket& ticket, const KeyPair& own, const std::string& name,
                      const GuestPatience& patience) {
  const JoinRequest request = join_request(ticket, own, name);
  Admission admission;
  bool are_silent = true;
  for (const std::string& address : ticket.addresses) {
    admission = ask_at(address, ticket, own, request, patience);
    admission.address = address;
    are_silent = are_silent && admission.is_silent;
    if (admission.problem.empty()) break;
  }
  admission.is_silent = are_silent;
  return admission;
}

}  // namespace gv
