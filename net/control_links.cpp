// Dealers out, one router in, and the hello that every link starts with.
#include "net/control_links.hpp"

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <zmq.hpp>

#include "net/allow_list.hpp"
#include "net/socket_watch.hpp"
#include "net/wire.hpp"

namespace gv {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t pending_max = 64;  ///< Frames kept for a link that is being opened.
constexpr std::size_t joins_max = 64;    ///< Keys tried at once at an address without a name.
constexpr int drained_at_once = 256;     ///< Frames handled before other events have their turn.
constexpr int high_water_mark = 256;     ///< Frames ZeroMQ queues for each link and direction.
constexpr auto housekeeping_period = std::chrono::milliseconds(100);
constexpr auto hello_again = std::chrono::milliseconds(100);
constexpr auto dial_patience = std::chrono::seconds(1);
constexpr auto silence_max = std::chrono::seconds(1);      ///< Of a link in use, then a check:
constexpr auto check_patience = std::chrono::seconds(2);   ///< so long for its answer.
constexpr auto dial_anew_after = std::chrono::seconds(4);  ///< Longer than a handshake may take.
constexpr auto join_patience = std::chrono::seconds(10);
constexpr auto dial_back_patience = std::chrono::seconds(10);
/// A late word of a process that is gone makes it come back once, and the newer one after it.
constexpr int returns_max = 3;
constexpr auto self_test_patience = std::chrono::seconds(10);

std::string endpoint(const std::string& address) { return "tcp://" + address; }

std::chrono::milliseconds milliseconds(Duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration);
}

}  // namespace

struct ControlLinks::Impl {
  /// A connection we opened.
  struct Dealer {
    std::shared_ptr<SocketWatch> watch;
    std::string address;
    bool up = false;            ///< The hello was answered and agrees.
    Clock::time_point opened;   ///< Since when there is hope that it comes up.
    Clock::time_point dialled;  ///< When its socket was made.
    Clock::time_point said_hello;
    Clock::time_point heard;  ///< The last frame on it.
    bool checking = false;    ///< The last hello asks whether it still works.
    Clock::time_point used;
    std::deque<std::vector<std::byte>> pending;
  };

  /// One authorised peer.
  struct Link {
    AuthorizedPeer peer;
    std::string address;  ///< Where to dial it; empty: unknown.
    std::optional<Dealer> dealer;
    zmq::message_t route;       ///< Its dealer's name at our router; empty: none.
    std::uint64_t session = 0;  ///< Of the life of the process we have contact with,
    std::uint64_t before = 0;   ///< and of the one we had contact with before.
    int returns = 0;            ///< How often the one before has come back.
    bool refused = false;       ///< Its hello disagrees.
  };

  /// An address given without a name: one dealer for each key that may be there.
  struct Join {
    std::string address;
    std::map<PeerId, Dealer> dealers;
    Clock::time_point began = Clock::now();
    bool told = false;
  };

  Impl(asio::io_context& loop, Options given, Callbacks calls);
  ~Impl();

  void listen();
  void self_test();
  void allow(const std::vector<AuthorizedPeer>& authorized);
  Dealer dial(PeerId peer, const PublicKey& key, const std::string& address);
  void open(PeerId peer, Link& link);
  void dial_anew(PeerId peer, const PublicKey& key, Dealer& dealer);
  Hello hello(bool answer) const;
  std::string disagreement(const Hello& theirs) const;
  bool admit(PeerId peer, Link& link, const Hello& theirs);

  bool send(PeerId to, const Frame& frame);
  bool put(SocketWatch& watch, const std::vector<std::byte>& bytes);
  bool put_routed(Link& link, const std::vector<std::byte>& bytes);
  void say_hello(Dealer& dealer);

  void read_dealer(PeerId peer, SocketWatch& watch);
  void read_router();
  void read_monitor();
  void on_dealer_frame(PeerId peer, SocketWatch& watch, const zmq::message_t& bytes);
  void on_routed_frame(zmq::message_t route, const zmq::message_t& bytes);
  void deliver(PeerId from, const Frame& frame);
  void joined(PeerId peer, SocketWatch* watch);
  void refuse(std::optional<PeerId> peer, std::string detail);
  void housekeeping();
  Dealer* dealer_of(PeerId peer, const SocketWatch* watch);

  asio::io_context& io;
  Options options;
  Callbacks callbacks;
  zmq::context_t context;
  AllowList allow_list;
  std::shared_ptr<SocketWatch> router;
  std::shared_ptr<SocketWatch> monitor;
  std::string listening;
  std::string advertised;
  PeerId self;
  std::map<PeerId, Link> links;
  std::vector<Join> joins;
  std::shared_ptr<asio::steady_timer> timer;
  Clock::time_point first_contact{};
  Clock::time_point refusal_told{};
  bool own_knock = false;  ///< The monitor is still to tell of our own self-test.
  bool was_dialled = false;
  bool told_unreachable = false;
  Counters counters;
};

ControlLinks::Impl::Impl(asio::io_context& loop, Options given, Callbacks calls)
    : io(loop),
      options(std::move(given)),
      callbacks(std::move(calls)),
      allow_list(io, context),
      self(peer_id(options.identity.public_key)),
      timer(std::make_shared<asio::steady_timer>(io)) {
  allow(options.authorized);
  if (!options.listen.empty()) {
    listen();
    self_test();
  }
  housekeeping();
}

ControlLinks::Impl::~Impl() {
  timer->cancel();
  // All sockets close before the context ends, or its destructor would wait for them.
  if (router) zmq_socket_monitor(router->socket().handle(), nullptr, 0);
}

void ControlLinks::Impl::allow(const std::vector<AuthorizedPeer>& authorized) {
  std::set<PublicKey> keys;
  for (const AuthorizedPeer& peer : authorized) {
    const PeerId id = peer_id(peer.key);
    if (id == self) continue;
    keys.insert(peer.key);
    Link& link = links[id];
    link.peer = peer;
    if (link.address.empty()) link.address = peer.address;
  }
  std::erase_if(links, [&](const auto& item) { return !keys.contains(item.second.peer.key); });
  for (Join& join : joins) {
    std::erase_if(join.dealers, [&](const auto& item) { return !links.contains(item.first); });
  }
  allow_list.set(std::move(keys));
}

void ControlLinks::Impl::listen() {
  zmq::socket_t socket(context, zmq::socket_type::router);
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(frame_bytes_max));
  socket.set(zmq::sockopt::handshake_ivl,
             static_cast<int>(milliseconds(options.handshake_deadline).count()));
  socket.set(zmq::sockopt::router_mandatory, true);
  socket.set(zmq::sockopt::sndhwm, high_water_mark);
  socket.set(zmq::sockopt::rcvhwm, high_water_mark);
  AllowList::protect(socket, options.identity);
  const int failures = ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                       ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_ACCEPT_FAILED;
  zmq_socket_monitor(socket.handle(), "inproc://monitor.router", failures);
  const auto colon = options.listen.rfind(':');
  const std::string host = options.listen.substr(0, colon);
  const std::string port = options.listen.substr(colon + 1);
  try {
    socket.bind(endpoint(host + ":" + (port == "0" ? "*" : port)));
  } catch (const zmq::error_t& error) {
    throw std::runtime_error(
        "--listen " + options.listen + ": cannot listen there (" + error.what() +
        "); give an address of this machine and a port that is free, or port 0 "
        "for any free one");
  }
  const std::string bound = socket.get(zmq::sockopt::last_endpoint);
  const std::string real_port = bound.substr(bound.rfind(':') + 1);
  listening = host + ":" + real_port;
  advertised = options.advertise.empty() ? listening : options.advertise;
  if (advertised.ends_with(":0")) {
    advertised = advertised.substr(0, advertised.size() - 1) + real_port;
  }

  zmq::socket_t events(context, zmq::socket_type::pair);
  events.set(zmq::sockopt::linger, 0);
  events.connect("inproc://monitor.router");
  router =
      std::make_shared<SocketWatch>(io, std::move(socket), [this](SocketWatch&) { read_router(); });
  monitor = std::make_shared<SocketWatch>(io, std::move(events),
                                          [this](SocketWatch&) { read_monitor(); });
  router->start();
  monitor->start();
}

/// Knocks at our own door with a key nobody knows. If that is let in, nothing else may be.
void ControlLinks::Impl::self_test() {
  const KeyPair stranger = generate_key_pair();
  zmq::socket_t knock(context, zmq::socket_type::dealer);
  knock.set(zmq::sockopt::linger, 0);
  knock.set(zmq::sockopt::curve_serverkey,
            zmq::buffer(options.identity.public_key.data(), options.identity.public_key.size()));
  knock.set(zmq::sockopt::curve_publickey,
            zmq::buffer(stranger.public_key.data(), stranger.public_key.size()));
  knock.set(zmq::sockopt::curve_secretkey,
            zmq::buffer(stranger.secret_key.data(), stranger.secret_key.size()));
  zmq_socket_monitor(knock.handle(), "inproc://monitor.self-test",
                     ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
                         ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                         ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL);
  zmq::socket_t events(context, zmq::socket_type::pair);
  events.set(zmq::sockopt::linger, 0);
  events.connect("inproc://monitor.self-test");
  const std::string port = listening.substr(listening.rfind(':'));
  const bool any = listening.starts_with("0.0.0.0:") || listening.starts_with("*:");
  own_knock = true;
  knock.connect(endpoint(any ? "127.0.0.1" + port : listening));
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

ControlLinks::Impl::Dealer ControlLinks::Impl::dial(PeerId peer, const PublicKey& key,
                                                    const std::string& address) {
  zmq::socket_t socket(context, zmq::socket_type::dealer);
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(frame_bytes_max));
  socket.set(zmq::sockopt::handshake_ivl,
             static_cast<int>(milliseconds(options.handshake_deadline).count()));
  socket.set(zmq::sockopt::immediate, true);
  socket.set(zmq::sockopt::reconnect_ivl, 100);
  socket.set(zmq::sockopt::reconnect_ivl_max, 5000);
  socket.set(zmq::sockopt::sndhwm, high_water_mark);
  socket.set(zmq::sockopt::rcvhwm, high_water_mark);
  socket.set(zmq::sockopt::curve_serverkey, zmq::buffer(key.data(), key.size()));
  socket.set(zmq::sockopt::curve_publickey,
             zmq::buffer(options.identity.public_key.data(), options.identity.public_key.size()));
  socket.set(zmq::sockopt::curve_secretkey,
             zmq::buffer(options.identity.secret_key.data(), options.identity.secret_key.size()));
  Dealer dealer{.watch = nullptr, .address = address, .opened = Clock::now()};
  dealer.used = dealer.dialled = dealer.heard = dealer.opened;
  const std::string& source = options.dial_from;
  socket.connect(endpoint(source.empty() ? address : source + ":0;" + address));
  dealer.watch = std::make_shared<SocketWatch>(
      io, std::move(socket), [this, peer](SocketWatch& watch) { read_dealer(peer, watch); });
  dealer.watch->start();
  return dealer;
}

void ControlLinks::Impl::open(PeerId peer, Link& link) {
  link.dealer = dial(peer, link.peer.key, link.address);
  say_hello(*link.dealer);
}

/// After bytes it cannot make sense of (damaged ones, say) ZeroMQ gives a connection up for good
/// and keeps silent about it; after a damaged length it waits for bytes that never come. So a link
/// that does not come up, or on which a hello is not answered, is made anew.
void ControlLinks::Impl::dial_anew(PeerId peer, const PublicKey& key, Dealer& dealer) {
  Dealer fresh = dial(peer, key, dealer.address);
  fresh.used = dealer.used;
  fresh.opened = dealer.opened;
  fresh.pending = std::move(dealer.pending);
  dealer = std::move(fresh);
  say_hello(dealer);
}

Hello ControlLinks::Impl::hello(bool answer) const {
  return {.name = options.name,
          .advertise = advertised,
          .session = options.session,
          .agreement = options.agreement,
          .answer = answer};
}

/// The first field of the agreement that differs, as a sentence; empty if none does.
std::string ControlLinks::Impl::disagreement(const Hello& theirs) const {
  for (const auto& [field, value] : options.agreement) {
    const auto other =
        std::ranges::find(theirs.agreement, field, &std::pair<std::string, std::string>::first);
    if (other == theirs.agreement.end()) return "it does not say its " + field;
    if (other->second != value) {
      return field + " differs: " + value + " here, " + other->second + " there";
    }
  }
  return {};
}

/// A hello arrived over a certified link: is this peer one of ours, and what is new about it?
bool ControlLinks::Impl::admit(PeerId peer, Link& link, const Hello& theirs) {
  const std::string difference = disagreement(theirs);
  if (!difference.empty()) {
    if (!link.refused || link.session != theirs.session) {
      ++counters.refused;
      callbacks.event({.name = "hello_refused",
                       .peer = peer,
                       .reason = Reason::unknown_layout,
                       .detail = link.peer.name + ": " + difference});
    }
    link.refused = true;
    link.session = theirs.session;
    return false;
  }
  const bool fresh = link.session != theirs.session || link.refused;
  const bool restarted = link.session != 0 && link.session != theirs.session;
  if (restarted) {
    link.returns = theirs.session == link.before ? link.returns + 1 : 0;
    link.before = link.session;
    if (link.returns == returns_max) {
      callbacks.event({.name = "key_used_twice",
                       .peer = peer,
                       .detail = "two processes take turns with the key of " + link.peer.name +
                                 "; stop one of them, or give it a key of its own"});
    }
  }
  link.refused = false;
  link.session = theirs.session;
  if (link.address.empty()) link.address = theirs.advertise;
  if (first_contact == Clock::time_point{}) first_contact = Clock::now();
  if (restarted) callbacks.restarted(peer);
  if (fresh) callbacks.contact(peer);
  return true;
}

bool ControlLinks::Impl::put(SocketWatch& watch, const std::vector<std::byte>& bytes) {
  try {
    const auto sent = watch.socket().send(zmq::buffer(bytes), zmq::send_flags::dontwait);
    watch.poke();
    if (!sent) return false;
  } catch (const zmq::error_t&) {
    return false;
  }
  ++counters.messages_sent;
  counters.bytes_sent += bytes.size();
  return true;
}

bool ControlLinks::Impl::put_routed(Link& link, const std::vector<std::byte>& bytes) {
  if (link.route.size() == 0) return false;
  try {
    const auto named = router->socket().send(zmq::buffer(link.route.data(), link.route.size()),
                                             zmq::send_flags::sndmore | zmq::send_flags::dontwait);
    if (!named) return false;
  } catch (const zmq::error_t&) {
    // The connection is gone: the other side dials again and says hello.
    link.route.rebuild();
    return false;
  }
  return put(*router, bytes);
}

void ControlLinks::Impl::say_hello(Dealer& dealer) {
  dealer.said_hello = Clock::now();
  put(*dealer.watch, encode(hello(false)));
}

bool ControlLinks::Impl::send(PeerId to, const Frame& frame) {
  const auto found = links.find(to);
  if (found == links.end() || found->second.refused) return false;
  Link& link = found->second;
  std::vector<std::byte> bytes;
  try {
    bytes = encode(frame);
  } catch (const std::exception& error) {
    callbacks.event({.name = "frame_not_sent", .peer = to, .detail = error.what()});
    return false;
  }
  if (link.dealer && link.dealer->up) {
    link.dealer->used = Clock::now();
    if (put(*link.dealer->watch, bytes)) return true;
    dial_anew(to, link.peer.key, *link.dealer);
    link.dealer->opened = link.dealer->dialled;
  }
  if (put_routed(link, bytes)) return true;
  if (link.address.empty()) return false;
  if (!link.dealer) open(to, link);
  // A link that does not come up is no way to reach anybody: better to know than to queue.
  const bool opening = Clock::now() - link.dealer->opened < dial_patience;
  if (link.dealer->up || !opening || link.dealer->pending.size() >= pending_max) return false;
  link.dealer->used = Clock::now();
  link.dealer->pending.push_back(std::move(bytes));
  return true;
}

ControlLinks::Impl::Dealer* ControlLinks::Impl::dealer_of(PeerId peer, const SocketWatch* watch) {
  const auto link = links.find(peer);
  if (link != links.end() && link->second.dealer && link->second.dealer->watch.get() == watch) {
    return &*link->second.dealer;
  }
  for (Join& join : joins) {
    const auto dealer = join.dealers.find(peer);
    if (dealer != join.dealers.end() && dealer->second.watch.get() == watch) return &dealer->second;
  }
  return nullptr;
}

void ControlLinks::Impl::read_dealer(PeerId peer, SocketWatch& watch) {
  for (int i = 0; i < drained_at_once; ++i) {
    zmq::message_t frame;
    if (!watch.socket().recv(frame, zmq::recv_flags::dontwait)) return;
    if (frame.more()) {
      refuse(peer, "a frame in several parts");
      while (frame.more() && watch.socket().recv(frame, zmq::recv_flags::dontwait)) {
      }
      continue;
    }
    on_dealer_frame(peer, watch, frame);
    // The frame may have ended this very link.
    if (dealer_of(peer, &watch) == nullptr) return;
  }
}

void ControlLinks::Impl::on_dealer_frame(PeerId peer, SocketWatch& watch,
                                         const zmq::message_t& bytes) {
  ++counters.messages_received;
  counters.bytes_received += bytes.size();
  Decoded decoded = decode({static_cast<const std::byte*>(bytes.data()), bytes.size()});
  if (!decoded.frame) {
    refuse(peer, decoded.problem);
    return;
  }
  Dealer* dealer = dealer_of(peer, &watch);
  if (dealer != nullptr) {
    dealer->heard = Clock::now();
    dealer->checking = false;
  }
  const auto link = links.find(peer);
  if (dealer == nullptr || link == links.end()) return;
  const auto* greeting = std::get_if<Hello>(&*decoded.frame);
  if (greeting == nullptr) {
    if (dealer->up) deliver(peer, *decoded.frame);
    return;
  }
  if (!greeting->answer) {
    // A new process behind the same key and address does not know us yet.
    dealer->up = false;
    say_hello(*dealer);
    return;
  }
  joined(peer, &watch);
  Dealer* current = dealer_of(peer, &watch);
  if (current == nullptr || !admit(peer, link->second, *greeting)) return;
  current = dealer_of(peer, &watch);
  if (current == nullptr) return;
  current->up = true;
  if (Clock::now() - current->opened > dial_patience) current->pending.clear();
  for (const auto& waiting : std::exchange(current->pending, {})) put(*current->watch, waiting);
}

/// Somebody answered at an address we were given without a name: that link stays, the other keys
/// tried there are given up.
void ControlLinks::Impl::joined(PeerId peer, SocketWatch* watch) {
  for (auto join = joins.begin(); join != joins.end(); ++join) {
    const auto dealer = join->dealers.find(peer);
    if (dealer == join->dealers.end() || dealer->second.watch.get() != watch) continue;
    Link& link = links.at(peer);
    if (!link.dealer) {
      link.address = join->address;
      link.dealer = std::move(dealer->second);
    }
    joins.erase(join);
    return;
  }
}

void ControlLinks::Impl::read_router() {
  for (int i = 0; i < drained_at_once; ++i) {
    zmq::message_t route;
    if (!router->socket().recv(route, zmq::recv_flags::dontwait)) return;
    zmq::message_t frame;
    if (!route.more() || !router->socket().recv(frame, zmq::recv_flags::dontwait)) continue;
    if (frame.more()) {
      refuse(std::nullopt, "a frame in several parts");
      while (frame.more() && router->socket().recv(frame, zmq::recv_flags::dontwait)) {
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
  const auto found = key ? links.find(peer_id(*key)) : links.end();
  if (found == links.end()) {
    // Certified once, but no longer on the list.
    refuse(key ? std::optional(peer_id(*key)) : std::nullopt, "its key is not authorised");
    return;
  }
  const PeerId peer = found->first;
  Link& link = found->second;
  Decoded decoded = decode({static_cast<const std::byte*>(bytes.data()), bytes.size()});
  if (!decoded.frame) {
    refuse(peer, decoded.problem);
    return;
  }
  const auto* greeting = std::get_if<Hello>(&*decoded.frame);
  if (greeting == nullptr) {
    const bool known = link.route.size() == route.size() &&
                       std::memcmp(link.route.data(), route.data(), route.size()) == 0;
    if (known && !link.refused) {
      deliver(peer, *decoded.frame);
    } else if (!link.refused) {
      // It knew an earlier life of ours: ask it to introduce itself.
      Link unknown;
      unknown.route = std::move(route);
      put_routed(unknown, encode(hello(false)));
    }
    return;
  }
  was_dialled = true;
  link.route = std::move(route);
  // Answered even when we disagree, so that the other side can name the difference as well.
  put_routed(link, encode(hello(true)));
  const bool moved = !greeting->advertise.empty() && greeting->advertise != link.address &&
                     link.session != greeting->session;
  if (moved) {
    link.dealer.reset();
    link.address = greeting->advertise;
  }
  if (!admit(peer, link, *greeting)) return;
  // Dialling back shows at once whether the address it advertises can be reached.
  if (!link.dealer && !link.address.empty()) open(peer, link);
}

void ControlLinks::Impl::deliver(PeerId from, const Frame& frame) {
  if (const auto* message = std::get_if<Message>(&frame)) {
    callbacks.message({from, *message});
  } else if (const auto* invite = std::get_if<LaneInvite>(&frame)) {
    callbacks.invite(from, *invite);
  }
}

void ControlLinks::Impl::refuse(std::optional<PeerId> peer, std::string detail) {
  ++counters.refused;
  // A flood of bad frames or strangers is told of once a second.
  const auto now = Clock::now();
  if (now - refusal_told < std::chrono::seconds(1)) return;
  refusal_told = now;
  callbacks.event({.name = "link_refused",
                   .peer = peer,
                   .reason = Reason::unknown_peer,
                   .detail = std::move(detail),
                   .numbers = {{"refused", static_cast<double>(counters.refused)}}});
}

void ControlLinks::Impl::read_monitor() {
  while (true) {
    zmq::message_t event;
    zmq::message_t address;
    if (!monitor->socket().recv(event, zmq::recv_flags::dontwait)) return;
    (void)monitor->socket().recv(address, zmq::recv_flags::dontwait);
    if (std::exchange(own_knock, false)) continue;
    refuse(std::nullopt, "a handshake without an authorised key");
  }
}

void ControlLinks::Impl::housekeeping() {
  const auto now = Clock::now();
  for (auto& [peer, link] : links) {
    if (!link.dealer) continue;
    Dealer& dealer = *link.dealer;
    if (now - dealer.used > options.idle_close && !link.refused) {
      link.dealer.reset();
    } else if (dealer.checking && now - dealer.said_hello > check_patience) {
      dial_anew(peer, link.peer.key, dealer);
    } else if (dealer.up && !dealer.checking && dealer.used > dealer.heard &&
               now - dealer.heard > silence_max) {
      // The other side may say what it has to say on a connection of its own: silence proves
      // nothing yet.
      say_hello(dealer);
      dealer.checking = true;
    } else if (!dealer.up && !link.refused && now - dealer.dialled > dial_anew_after) {
      dial_anew(peer, link.peer.key, dealer);
    } else if (!dealer.up && !link.refused && now - dealer.said_hello > hello_again) {
      say_hello(dealer);
    }
  }
  for (Join& join : joins) {
    for (auto& [peer, dealer] : join.dealers) {
      if (now - dealer.dialled > dial_anew_after) {
        dial_anew(peer, links.at(peer).peer.key, dealer);
      } else if (now - dealer.said_hello > hello_again) {
        say_hello(dealer);
      }
    }
    if (!join.told && now - join.began > join_patience) {
      join.told = true;
      callbacks.event(
          {.name = "join_failed",
           .detail = "nobody with an authorised key answers at " + join.address +
                     " yet; still trying. Check the address, and that each side has the "
                     "other's key in its authorized_peers"});
    }
  }
  const bool overdue =
      first_contact != Clock::time_point{} && now - first_contact > dial_back_patience;
  if (!advertised.empty() && overdue && !was_dialled && !told_unreachable) {
    told_unreachable = true;
    callbacks.event({.name = "not_reachable",
                     .reason = Reason::unreachable,
                     .detail = "nobody could dial this peer back at " + advertised +
                               "; advertise an address the others can reach with --advertise "
                               "HOST:PORT, or leave --listen out to dial out only"});
  }
  timer->expires_after(housekeeping_period);
  timer->async_wait([this, weak = std::weak_ptr(timer)](asio::error_code error) {
    if (!error && !weak.expired()) housekeeping();
  });
}

ControlLinks::ControlLinks(asio::io_context& io, Options options, Callbacks callbacks)
    : impl_(std::make_unique<Impl>(io, std::move(options), std::move(callbacks))) {}

ControlLinks::~ControlLinks() = default;

const std::string& ControlLinks::listening() const { return impl_->listening; }

const std::string& ControlLinks::advertised() const { return impl_->advertised; }

void ControlLinks::join(const std::string& address) {
  const auto at = address.find('@');
  const std::string name = at == std::string::npos ? std::string() : address.substr(0, at);
  const std::string where = at == std::string::npos ? address : address.substr(at + 1);
  Impl::Join join{.address = where, .dealers = {}};
  for (auto& [peer, link] : impl_->links) {
    if (!name.empty() && link.peer.name != name) continue;
    if (join.dealers.size() == joins_max) break;
    Impl::Dealer dealer = impl_->dial(peer, link.peer.key, where);
    impl_->say_hello(dealer);
    join.dealers.emplace(peer, std::move(dealer));
  }
  impl_->joins.push_back(std::move(join));
}

void ControlLinks::set_address(PeerId peer, const std::string& address) {
  const auto found = impl_->links.find(peer);
  if (found == impl_->links.end() || found->second.address == address) return;
  found->second.address = address;
  // A link that works stays; one that does not is tried at the new place.
  if (found->second.dealer && !found->second.dealer->up) found->second.dealer.reset();
}

bool ControlLinks::send(PeerId to, const Message& message) { return impl_->send(to, message); }

bool ControlLinks::send(PeerId to, const LaneInvite& invite) { return impl_->send(to, invite); }

void ControlLinks::authorize(std::vector<AuthorizedPeer> authorized) { impl_->allow(authorized); }

const ControlLinks::Counters& ControlLinks::counters() const { return impl_->counters; }

}  // namespace gv
