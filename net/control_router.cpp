// Incoming control links: a router that listens and tests its own allow-list.
#include <fcntl.h>

#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "net/acknowledgement_deadline.hpp"
#include "net/control_links_impl.hpp"
#include "net/host_address.hpp"
#include "net/tcp_port.hpp"

namespace gv {
namespace {

constexpr auto self_test_patience = std::chrono::seconds(10);
/// Shortest time between two reads of the reports about connections. Strangers can cause any number
/// of reports, and without a pause each of them would wake the loop.
constexpr auto monitor_rest = std::chrono::milliseconds(20);

}  // namespace

void ControlLinks::Impl::listen() {
  zmq::socket_t socket(context, zmq::socket_type::router);
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::ipv6, is_ipv6(options.listen));
  socket.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(frame_bytes_max));
  socket.set(zmq::sockopt::handshake_ivl,
             static_cast<int>(milliseconds(options.handshake_deadline).count()));
  socket.set(zmq::sockopt::router_mandatory, true);
  socket.set(zmq::sockopt::tcp_maxrt, unacknowledged_max_ms);
  socket.set(zmq::sockopt::sndhwm, high_water_mark);
  socket.set(zmq::sockopt::rcvhwm, high_water_mark);
  AllowList::protect(socket, curve_keys(options.identity));
  const int reported = ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                       ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_ACCEPTED;
  zmq_socket_monitor(socket.handle(), "inproc://monitor.router", reported);
  const std::string host = options.listen.substr(0, options.listen.rfind(':'));
  const std::string wanted = options.listen.substr(host.size() + 1);
  asio::ip::tcp::acceptor acceptor = open_tcp_port(
      io, host_of(options.listen), static_cast<std::uint16_t>(std::stoi(wanted)),
      "--listen " + options.listen,
      "give an address of this machine and a port that is free, or port 0 for any free one");
  connections.listens_at(acceptor.local_endpoint().port());
  const std::string real_port = std::to_string(acceptor.local_endpoint().port());
  listening = host + ":" + real_port;
  port.descriptor = Descriptor(::fcntl(acceptor.native_handle(), F_DUPFD_CLOEXEC, 0));
  socket.set(zmq::sockopt::use_fd, acceptor.native_handle());
  socket.bind(endpoint(listening));
  acceptor.release();  // From now on, ZeroMQ closes the descriptor.
  advertised = options.advertise.empty() ? listening : options.advertise;
  if (advertised.ends_with(":0")) {
    advertised = advertised.substr(0, advertised.size() - 1) + real_port;
  }

  zmq::socket_t events(context, zmq::socket_type::pair);
  events.set(zmq::sockopt::linger, 0);
  events.connect("inproc://monitor.router");
  router =
      std::make_shared<SocketWatch>(io, std::move(socket), [this](SocketWatch&) { read_router(); });
  monitor = std::make_shared<SocketWatch>(
      io, std::move(events), [this](SocketWatch&) { read_monitor(); }, monitor_rest);
  router->start();
  monitor->start();
}

/// Dials ourselves with a random key, and throws if that key is not refused.
void ControlLinks::Impl::self_test() {
  zmq::socket_t knock(context, zmq::socket_type::dealer);
  knock.set(zmq::sockopt::linger, 0);
  dial_as(knock, curve_keys(generate_key_pair()), options.identity.public_key);
  zmq_socket_monitor(knock.handle(), "inproc://monitor.self-test",
                     ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
                         ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                         ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL);
  zmq::socket_t events(context, zmq::socket_type::pair);
  events.set(zmq::sockopt::linger, 0);
  events.connect("inproc://monitor.self-test");
  const std::string port = listening.substr(listening.rfind(':'));
  own_knock = true;
  if (listening.starts_with("0.0.0.0:") || listening.starts_with("*:")) {
    knock.connect(endpoint("127.0.0.1" + port));
  } else {
    knock.set(zmq::sockopt::ipv6, is_ipv6(listening));
    knock.connect(endpoint(listening.starts_with("[::]:") ? "[::1]" + port : listening));
  }
  const auto deadline = Clock::now() + self_test_patience;
  bool refused = false;
  while (!refused && Clock::now() < deadline) {
    allow_list.serve();
    events.set(zmq::sockopt::rcvtimeo, 5);
    zmq::message_t event;
    zmq::message_t address;
    if (!events.recv(event)) continue;
    (void)events.recv(address);
    std::uint16_t what = 0;
    std::memcpy(&what, event.data(), sizeof what);
    if (what == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) break;
    refused = true;
  }
  zmq_socket_monitor(knock.handle(), nullptr, 0);
  if (!refused) {
    throw std::runtime_error(
        "the allow-list does not hold: a random key was not refused at " + listening +
        "; not starting. Check the installed libzmq (4.3.4 with CURVE is known to work)");
  }
}

bool ControlLinks::Impl::put_routed(Route& route, const std::vector<std::byte>& bytes) {
  if (!route.is_known()) return false;
  try {
    const auto named = router->socket().send(zmq::buffer(route.id.data(), route.id.size()),
                                             zmq::send_flags::sndmore | zmq::send_flags::dontwait);
    if (!named) return false;
  } catch (const zmq::error_t&) {
    // The connection is gone: the other side dials again and says hello.
    route.id.rebuild();
    return false;
  }
  return put(*router, bytes);
}

/// Causes a check of the connections with a peer if they are silent. Called when a relay offers to
/// connect us with that peer: one side could not reach the other, so messages may be lost in both
/// directions.
void ControlLinks::Impl::doubt(PeerId peer) {
  const auto found = links.find(peer);
  if (found == links.end()) return;
  Link& link = found->second;
  link.route.pulse.used = Clock::now();
  if (link.dealer) link.dealer->pulse.used = link.route.pulse.used;
}

/// Checks incoming connections that were used and are silent.
void ControlLinks::Impl::tend_routes() {
  const auto now = Clock::now();
  for (auto& [peer, link] : links) {
    Route& route = link.route;
    if (!route.is_known() || !route.pulse.is_in_doubt(now)) continue;
    // If ZeroMQ has no room for the check, the connection accepts no data, so count the check as
    // sent and let it time out.
    put_routed(route, encode(LinkCheck{}));
    route.pulse.asked = now;
  }
}

void ControlLinks::Impl::read_router() {
  for (int i = 0; i < drained_at_once; ++i) {
    zmq::message_t route;
    if (!router->receive(route)) return;
    zmq::message_t frame;
    if (!route.more() || !router->receive(frame)) continue;
    if (frame.more()) {
      const std::optional<PublicKey> key = sender_key(frame);
      if (key && links.contains(peer_id(*key))) {
        connections.heard(frame, peer_id(*key));
        offend(peer_id(*key), "a frame in several parts");
      } else {
        refuse(std::nullopt, "a guest sends a frame in several parts");
        connections.hang_up(frame);
      }
      while (frame.more() && router->receive(frame)) {
      }
      continue;
    }
    on_routed_frame(std::move(route), frame);
  }
}

void ControlLinks::Impl::on_routed_frame(zmq::message_t route, const zmq::message_t& bytes) {
  ++counters.messages_received;
  counters.bytes_received += bytes.size();
  const std::optional<PublicKey> key = sender_key(bytes);
  const bool is_guest = key && !links.contains(peer_id(*key)) && guests.contains(*key);
  // Guests share a key, so their connections do not count towards a peer's limit. They remain among
  // the connections without a first message, which end soon.
  if (key && !is_guest) connections.heard(bytes, peer_id(*key));
  const auto found = key ? links.find(peer_id(*key)) : links.end();
  if (is_guest) {
    on_guest_frame(*key, std::move(route), bytes);
    return;
  }
  if (found == links.end()) {
    // The key was on the list when the connection began, but no longer is.
    refuse(key ? std::optional(peer_id(*key)) : std::nullopt, "its key is not authorised");
    connections.hang_up(bytes);
    return;
  }
  const PeerId peer = found->first;
  if (is_quarantined(peer)) {
    // The connection is older than the quarantine. ZeroMQ does not check its key again.
    ++counters.refused;
    connections.hang_up(bytes);
    return;
  }
  heed(peer, [&] { on_frame_of(peer, found->second, std::move(route), bytes); });
}

/// Answers a guest, or accepts the certificates that a visitor shows. Neither may send anything
/// else.
void ControlLinks::Impl::on_guest_frame(const PublicKey& key, zmq::message_t route,
                                        const zmq::message_t& bytes) {
  const auto turn_away = [&](const std::string& why) {
    refuse(std::nullopt, why);
    connections.hang_up(bytes);
  };
  Guest& guest = guests.at(key);
  if (!guest.frames.take(steady_time())) return turn_away("a guest says too much");
  try {
    const Decoded decoded = decode({static_cast<const std::byte*>(bytes.data()), bytes.size()});
    if (!decoded.frame) return turn_away("a guest is not understood: " + decoded.problem);
    const auto* request = std::get_if<JoinRequest>(&*decoded.frame);
    const auto* exam = std::get_if<ExamRequest>(&*decoded.frame);
    const auto* message = std::get_if<Message>(&*decoded.frame);
    const auto* shown = message == nullptr ? nullptr : std::get_if<Certificates>(message);
    if (request != nullptr && callbacks.join) {
      const std::optional<JoinAnswer> answer = callbacks.join(key, *request);
      if (!answer) return turn_away("a visitor asks to join");
      Route way{.id = std::move(route), .pulse = {}};
      put_routed(way, encode(*answer));
    } else if (shown != nullptr && callbacks.shown) {
      callbacks.shown(*shown);
    } else if (exam != nullptr && callbacks.examine) {
      // A refusal for lack of budget would be an answer too, so the ticket is checked first.
      if (!callbacks.has_ticket || !callbacks.has_ticket(key)) {
        return turn_away("a visitor asks to be examined");
      }
      on_exam(key, guest.exams, true, std::move(route), bytes, *exam);
    } else {
      turn_away("a guest asks for what only members get");
    }
  } catch (const std::exception& error) {
    turn_away(std::string("a guest cannot be answered: ") + error.what());
  }
}

/// Passes on a request of `grapevine doctor`. The sender is recorded only in its budget, because
/// doctor uses a peer's key but is not that peer's process.
void ControlLinks::Impl::on_exam(const PublicKey& key, RateLimit& budget, bool is_guest,
                                 zmq::message_t route, const zmq::message_t& bytes,
                                 const ExamRequest& request) {
  if (!callbacks.examine) return;
  const auto way = std::make_shared<Route>();
  way->id = std::move(route);
  const auto reply = [this, way, weak = std::weak_ptr(timer)](const ExamAnswer& answer) {
    if (!weak.expired()) put_routed(*way, encode(answer));
  };
  if (!budget.take(steady_time())) {
    reply({.number = request.number, .refusal = "this key has asked often; try again in a minute"});
    return;
  }
  callbacks.examine({.from = key,
                     .is_guest = is_guest,
                     .source = source_host(bytes),
                     .request = request,
                     .reply = reply});
}

void ControlLinks::Impl::on_frame_of(PeerId peer, Link& link, zmq::message_t route,
                                     const zmq::message_t& bytes) {
  if (!is_within_budget(peer, link, bytes)) return;
  Decoded decoded = decode({static_cast<const std::byte*>(bytes.data()), bytes.size()});
  if (!decoded.frame) {
    offend(peer, decoded.problem);
    return;
  }
  if (const auto* exam = std::get_if<ExamRequest>(&*decoded.frame)) {
    on_exam(link.peer.key, link.exams, false, std::move(route), bytes, *exam);
    return;
  }
  const auto* greeting = std::get_if<Hello>(&*decoded.frame);
  if (greeting == nullptr) {
    const auto* check = std::get_if<LinkCheck>(&*decoded.frame);
    const bool known = link.route.id.size() == route.size() &&
                       std::memcmp(link.route.id.data(), route.data(), route.size()) == 0;
    if (known) link.route.pulse.hear();
    if (known && !link.refused && check != nullptr) {
      if (!check->answer) put_routed(link.route, encode(LinkCheck{.answer = true}));
    } else if (known && !link.refused) {
      deliver(peer, link, *std::move(decoded.frame), bytes);
    } else if (!link.refused && link.hellos.take(steady_time())) {
      // The sender knew an earlier process of ours, so ask it to introduce itself.
      Route unknown{.id = std::move(route), .pulse = {}};
      put_routed(unknown, encode(hello(false)));
    }
    return;
  }
  if (const std::string unsound = Roster::problem(*greeting); !unsound.empty()) {
    offend(peer, unsound);
    return;
  }
  if (!link.hellos.take(steady_time()) || !link.may_begin_with(*greeting)) return;
  was_dialled = true;
  link.route = {.id = std::move(route), .pulse = {}};
  link.route.pulse.hear();
  // The hello is answered even if we disagree, so that the other side can name the difference too.
  put_routed(link.route, encode(hello(true)));
  const bool moved = !greeting->advertise.empty() && greeting->advertise != link.address &&
                     link.session != greeting->session;
  if (moved) {
    link.dealer.reset();
    link.address = greeting->advertise;
  }
  if (!admit(peer, link, *greeting)) return;
  // Dialling back shows at once whether the advertised address can be reached.
  if (!link.dealer && !link.address.empty()) open(peer, link);
}

void ControlLinks::Impl::read_monitor() {
  while (true) {
    zmq::message_t event;
    zmq::message_t address;
    if (!monitor->receive(event)) return;
    monitor->receive(address);
    std::uint16_t what = 0;
    std::int32_t descriptor = -1;
    if (event.size() < sizeof what + sizeof descriptor) continue;
    std::memcpy(&what, event.data(), sizeof what);
    std::memcpy(&descriptor, static_cast<const char*>(event.data()) + sizeof what,
                sizeof descriptor);
    if (what == ZMQ_EVENT_ACCEPTED) {
      connections.opened(descriptor, steady_time());
      continue;
    }
    if (std::exchange(own_knock, false)) continue;
    refuse(std::nullopt, "a handshake without an authorised key");
  }
}

}  // namespace gv
