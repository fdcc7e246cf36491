// Outgoing dealers, the hello that starts every link, and the handling of links that fail.
#include "net/control_links.hpp"

#include <algorithm>
#include <exception>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/printable.hpp"
#include "net/acknowledgement_deadline.hpp"
#include "net/control_links_impl.hpp"
#include "net/descriptor.hpp"

namespace gv {
namespace {

constexpr std::size_t pending_max = 64;     ///< Most frames kept for a link that is being opened.
constexpr std::size_t setting_shown = 128;  ///< Most bytes of a peer's setting in an error message.
constexpr auto link_housekeeping_period = std::chrono::milliseconds(100);
constexpr auto dial_patience = std::chrono::seconds(1);
constexpr auto dial_back_patience = std::chrono::seconds(10);
/// The certificates that we show must arrive within this time.
constexpr auto show_patience = std::chrono::seconds(5);
constexpr std::size_t shows_max = 32;
/// Limit on the frames of all guests that use one key. Many machines may join with one ticket at
/// once.
constexpr RateLimit::Options guest_frames{.per_second = 20, .burst = 300};
/// This many returns of earlier sessions in a row mean that two processes use one key. A late
/// message from a dead process causes at most two: the dead session seems to return, and then the
/// live one does.
constexpr int returns_max = 3;

/// Returns the address in the form that ZeroMQ dials, with the source address if one is given.
std::string source_and(const std::string& source, const std::string& address) {
  if (source.empty()) return address;
  return (source.find(':') == std::string::npos ? source : "[" + source + "]") + ":0;" + address;
}

/// Returns true if lanes to a peer may be dialled at `address`. Its host must be the source of the
/// message, the host in the allow-list, or the one that the peer's hello advertises. Otherwise a
/// member could make us dial any machine without a trace.
bool is_host_of(std::string_view address, std::string_view claimed, std::string_view listed,
                const zmq::message_t& came) {
  const std::string host = host_of(address);
  return !host.empty() &&
         (host == source_host(came) || host == host_of(claimed) || host == host_of(listed));
}

}  // namespace

ControlLinks::Impl::Impl(asio::io_context& loop, Options given, Callbacks calls)
    : io(loop),
      options(std::move(given)),
      callbacks(std::move(calls)),
      allow_list(io, context),
      self(peer_id(options.identity.public_key)),
      timer(std::make_shared<asio::steady_timer>(io)),
      conduct({.quarantine = options.quarantine}) {
  allow(options.authorized);
  if (!options.listen.empty()) {
    listen();
    self_test();
  }
  housekeeping();
}

ControlLinks::Impl::~Impl() {
  timer->cancel();
  // All sockets must close before the context ends, because its destructor waits for them.
  if (!router) return;
  // Avoid a deadlock: ZeroMQ's thread may be waiting for room in the monitor's queue, and closing
  // the monitor waits for that thread. So stop accepting connections, and empty the queue to make
  // room for the reports about open connections.
  const std::string bound = router->socket().get(zmq::sockopt::last_endpoint);
  zmq_unbind(router->socket().handle(), bound.c_str());
  for (zmq::message_t part; monitor->receive(part);) {
  }
  zmq_socket_monitor(router->socket().handle(), nullptr, 0);
}

void ControlLinks::Impl::allow(const std::vector<AuthorizedPeer>& authorized) {
  std::set<PeerId> listed;
  for (const AuthorizedPeer& peer : authorized) {
    const PeerId id = peer_id(peer.key);
    if (id == self) continue;
    listed.insert(id);
    const auto [entry, is_new] = links.try_emplace(id);
    Link& link = entry->second;
    if (is_new) {
      link.frames = RateLimit(options.frames);
      link.exams = RateLimit(options.exams);
    }
    const bool is_moved = !peer.address.empty() && peer.address != link.peer.address;
    link.peer = peer;
    if (link.address.empty() || is_moved) link.address = peer.address;
  }
  std::erase_if(links, [&](const auto& item) { return !listed.contains(item.first); });
  for (Join& join : joins) {
    std::erase_if(join.dealers, [&](const auto& item) { return !links.contains(item.first); });
  }
  roster = Roster({.name = options.name, .key = options.identity.public_key}, authorized);
  set_keys();
  for (Join& join : joins) seek(join);
}

/// Admits the keys of all peers that are not quarantined.
void ControlLinks::Impl::set_keys() {
  std::set<PublicKey> keys;
  has_quarantined = false;
  for (const auto& [peer, link] : links) {
    if (is_quarantined(peer)) {
      has_quarantined = true;
    } else {
      keys.insert(link.peer.key);
    }
  }
  std::set<PublicKey> shared;
  for (const auto& [key, guest] : guests) shared.insert(key);
  allow_list.set(keys, shared);
}

/// Returns a dealer that tries to reach `address`. If this fails, reports the reason and returns
/// nullopt.
std::optional<ControlLinks::Impl::Dealer> ControlLinks::Impl::dial(PeerId peer,
                                                                   const PublicKey& key,
                                                                   const std::string& address) {
  try {
    return dealer_to(peer, key, address);
  } catch (const zmq::error_t& error) {
    refuse(peer, "it cannot be dialled at " + address + ": " + error.what());
    return std::nullopt;
  }
}

ControlLinks::Impl::Dealer ControlLinks::Impl::dealer_to(PeerId peer, const PublicKey& key,
                                                         const std::string& address) {
  zmq::socket_t socket(context, zmq::socket_type::dealer);
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(frame_bytes_max));
  socket.set(zmq::sockopt::handshake_ivl,
             static_cast<int>(milliseconds(options.handshake_deadline).count()));
  socket.set(zmq::sockopt::immediate, true);
  socket.set(zmq::sockopt::reconnect_ivl, 100);
  socket.set(zmq::sockopt::reconnect_ivl_max, 5000);
  socket.set(zmq::sockopt::tcp_maxrt, unacknowledged_max_ms);
  socket.set(zmq::sockopt::sndhwm, high_water_mark);
  socket.set(zmq::sockopt::rcvhwm, high_water_mark);
  dial_as(socket, curve_keys(options.identity), key);
  Dealer dealer{.watch = nullptr, .address = address, .opened = Clock::now()};
  dealer.pulse.used = dealer.dialled = dealer.pulse.heard = dealer.opened;
  dealer.has_connection = connect(socket, address);
  dealer.watch = std::make_shared<SocketWatch>(
      io, std::move(socket), [this, peer](SocketWatch& watch) { read_dealer(peer, watch); });
  dealer.watch->start();
  return dealer;
}

/// Returns false and does nothing while the name in the address is being looked up.
bool ControlLinks::Impl::connect(zmq::socket_t& socket, const std::string& address) {
  const std::optional<std::string> numeric = names.numeric(address);
  if (!numeric) return false;
  socket.set(zmq::sockopt::ipv6, is_ipv6(*numeric));
  socket.connect(endpoint(source_and(options.dial_from, *numeric)));
  return true;
}

/// Connects a dealer that was made before its host name was resolved, once the name is resolved.
void ControlLinks::Impl::connect_by_name(PeerId peer, Dealer& dealer) {
  if (dealer.has_connection) return;
  try {
    dealer.has_connection = connect(dealer.watch->socket(), dealer.address);
  } catch (const zmq::error_t& error) {
    refuse(peer, "it cannot be dialled at " + dealer.address + ": " + error.what());
  }
}

void ControlLinks::Impl::open(PeerId peer, Link& link) {
  if (!has_spare_descriptors()) return refuse(peer, too_few_descriptors);
  link.dealer = dial(peer, link.peer.key, link.address);
  if (link.dealer) say_hello(*link.dealer);
}

/// Dials again if a link does not come up or a hello stays unanswered. ZeroMQ silently gives up a
/// connection after bytes that it cannot parse (damaged ones, for example). After a damaged length
/// it waits for bytes that never come.
void ControlLinks::Impl::dial_again(PeerId peer, const PublicKey& key, Dealer& dealer) {
  std::optional<Dealer> fresh = dial(peer, key, dealer.address);
  dealer.dialled = Clock::now();
  if (!fresh) return;
  fresh->pulse.used = dealer.pulse.used;
  fresh->opened = dealer.opened;
  fresh->pending = std::move(dealer.pending);
  dealer = *std::move(fresh);
  say_hello(dealer);
}

Hello ControlLinks::Impl::hello(bool answer) const {
  return {.name = options.name,
          .advertise = advertised,
          .session = options.session,
          .agreement = options.agreement,
          .answer = answer};
}

/// Returns a sentence about the first field of the agreement that differs; empty if all agree.
std::string ControlLinks::Impl::disagreement(const Hello& theirs) const {
  for (const auto& [field, value] : options.agreement) {
    const auto other =
        std::ranges::find(theirs.agreement, field, &std::pair<std::string, std::string>::first);
    if (other == theirs.agreement.end()) return "it does not say its " + field;
    if (other->second != value) {
      return field + " differs: " + value + " here, " + printable(other->second, setting_shown) +
             " there";
    }
  }
  return {};
}

/// Handles a hello over an authenticated link: decides whether the settings agree, and whether the
/// peer's process is new.
bool ControlLinks::Impl::admit(PeerId peer, Link& link, const Hello& theirs) {
  const std::string difference = disagreement(theirs);
  if (!difference.empty()) {
    if (!link.refused || link.session != theirs.session) {
      ++counters.refused;
      callbacks.fact(HelloRefused{.peer = peer, .difference = difference});
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
      callbacks.fact(KeyUsedTwice{.peer = peer});
    }
  }
  link.refused = false;
  link.session = theirs.session;
  link.claimed_address = theirs.advertise;
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

void ControlLinks::Impl::say_hello(Dealer& dealer) {
  dealer.said_hello = Clock::now();
  put(*dealer.watch, encode(hello(false)));
}

bool ControlLinks::Impl::send(PeerId to, const Frame& frame) {
  const auto found = links.find(to);
  if (found == links.end() || found->second.refused || is_quarantined(to)) return false;
  Link& link = found->second;
  std::vector<std::byte> bytes;
  try {
    bytes = encode(frame);
  } catch (const std::exception& error) {
    callbacks.fact(FrameNotSent{.peer = to, .why = error.what()});
    return false;
  }
  if (link.dealer && link.dealer->up) {
    link.dealer->pulse.used = Clock::now();
    if (put(*link.dealer->watch, bytes)) return true;
    dial_again(to, link.peer.key, *link.dealer);
    link.dealer->opened = link.dealer->dialled;
  }
  if (link.route.works() && put_routed(link.route, bytes)) {
    link.route.pulse.used = Clock::now();
    return true;
  }
  if (link.address.empty()) return false;
  if (!link.dealer) open(to, link);
  if (!link.dealer) return false;
  // If the link has not come up in time, reporting the failure is better than queueing the message.
  const bool opening = Clock::now() - link.dealer->opened < dial_patience;
  if (link.dealer->up || !opening || link.dealer->pending.size() >= pending_max) return false;
  link.dealer->pulse.used = Clock::now();
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
    // The previous frame may have ended this link.
    const Dealer* dealer = dealer_of(peer, &watch);
    zmq::message_t frame;
    if (dealer == nullptr || !watch.receive(frame)) return;
    if (frame.more()) {
      offend(peer, "a frame in several parts");
      while (frame.more() && watch.receive(frame)) {
      }
      continue;
    }
    connections.heard(frame, peer, port_number_of(dealer->address));
    heed(peer, [&] { on_dealer_frame(peer, watch, frame); });
  }
}

void ControlLinks::Impl::on_dealer_frame(PeerId peer, SocketWatch& watch,
                                         const zmq::message_t& bytes) {
  ++counters.messages_received;
  counters.bytes_received += bytes.size();
  const auto link = links.find(peer);
  if (link == links.end() || !is_within_budget(peer, link->second, bytes)) return;
  Decoded decoded = decode({static_cast<const std::byte*>(bytes.data()), bytes.size()});
  if (!decoded.frame) {
    offend(peer, decoded.problem);
    return;
  }
  Dealer* dealer = dealer_of(peer, &watch);
  if (dealer == nullptr) return;
  dealer->pulse.hear();
  if (const auto* check = std::get_if<LinkCheck>(&*decoded.frame)) {
    if (!check->answer) put(watch, encode(LinkCheck{.answer = true}));
    return;
  }
  const auto* greeting = std::get_if<Hello>(&*decoded.frame);
  if (greeting == nullptr) {
    if (dealer->up) deliver(peer, link->second, *std::move(decoded.frame), bytes);
    return;
  }
  if (!link->second.hellos.take(steady_time())) return;
  if (const std::string unsound = Roster::problem(*greeting); !unsound.empty()) {
    offend(peer, unsound);
    return;
  }
  if (!greeting->answer) {
    // A new process behind the same key and address does not know us yet.
    dealer->up = false;
    say_hello(*dealer);
    return;
  }
  if (!link->second.may_begin_with(*greeting)) return;
  joined(peer, &watch);
  Dealer* current = dealer_of(peer, &watch);
  if (current == nullptr || !admit(peer, link->second, *greeting)) return;
  current = dealer_of(peer, &watch);
  if (current == nullptr) return;
  current->up = true;
  if (Clock::now() - current->opened > dial_patience) current->pending.clear();
  for (const auto& waiting : std::exchange(current->pending, {})) put(*current->watch, waiting);
}

void ControlLinks::Impl::show(const PublicKey& there, const std::string& address,
                              const PublicKey& swarm, const Certificates& chain) {
  // No certificates are shown until the name is resolved. The next attempt comes within a second.
  const std::optional<std::string> numeric = names.numeric(address);
  if (!numeric) return;
  if (shows.size() == shows_max) shows.pop_front();
  try {
    zmq::socket_t socket(context, zmq::socket_type::dealer);
    socket.set(zmq::sockopt::linger, 0);
    socket.set(zmq::sockopt::ipv6, is_ipv6(*numeric));
    // Nothing that arrives on this connection is ever read.
    socket.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(frame_bytes_max));
    socket.set(zmq::sockopt::rcvhwm, 1);
    socket.set(zmq::sockopt::reconnect_ivl, 1000);
    dial_as(socket, curve_keys(visitor_keys(swarm)), there);
    socket.connect(endpoint(*numeric));
    (void)socket.send(zmq::buffer(encode(Message(chain))), zmq::send_flags::dontwait);
    shows.emplace_back(Clock::now(), std::move(socket));
  } catch (const std::exception& error) {
    refuse(peer_id(there), "no certificate can be shown at " + address + ": " + error.what());
  }
}

/// Counts a frame against the limit of its key. Above the limit, the connection ends.
bool ControlLinks::Impl::is_within_budget(PeerId peer, Link& link, const zmq::message_t& bytes) {
  if (link.frames.take(steady_time())) return true;
  connections.hang_up(bytes);
  link.frames = RateLimit(options.frames);
  offend(peer, "a flood of messages");
  return false;
}

void ControlLinks::Impl::deliver(PeerId from, Link& link, Frame frame,
                                 const zmq::message_t& bytes) {
  if (auto* message = std::get_if<Message>(&frame)) {
    if (const std::string unsound = roster.admit(*message); !unsound.empty()) {
      offend(from, unsound);
    } else {
      callbacks.message({from, std::move(*message)});
    }
  } else if (auto* invite = std::get_if<LaneInvite>(&frame)) {
    if (!link.invitations.take(steady_time())) return;
    // An address that fails this check is dropped. The other side can still dial us.
    if (!is_host_of(invite->address, link.claimed_address, link.peer.address, bytes)) {
      if (!invite->address.empty()) refuse(from, "it is not known to be where its lanes are");
      invite->address.clear();
    }
    callbacks.invite(from, *invite);
  } else if (auto* step = std::get_if<RelayStep>(&frame)) {
    // A relay passes on other peers' requests, and these must not use up the budget for its own
    // invitations.
    if (!link.relay_steps.take(steady_time()) || !callbacks.relay) return;
    const bool is_offer = step->kind == RelayStep::Kind::offer;
    if (is_offer && !is_host_of(step->address, link.claimed_address, link.peer.address, bytes)) {
      refuse(from, "it is not known to be where it wants to relay");
      return;
    }
    if (is_offer) doubt(step->other);
    callbacks.relay(from, *step);
  } else {
    offend(from, "a frame that does not belong on a link");
  }
}

void ControlLinks::Impl::offend(PeerId peer, const std::string& why) {
  ++counters.refused;
  if (is_quarantined(peer) || !links.contains(peer)) return;
  callbacks.fact(UnsoundMessage{.peer = peer, .why = why});
  if (!conduct.offend(steady_time(), peer)) return;
  cut(peer);
  callbacks.fact(LinkQuarantined{.peer = peer, .why = why, .seconds = seconds(options.quarantine)});
}

/// Ends all connections with a peer, and refuses new ones until its quarantine is over.
void ControlLinks::Impl::cut(PeerId peer) {
  Link& link = links.at(peer);
  link.dealer.reset();
  link.route = {};
  for (Join& join : joins) join.dealers.erase(peer);
  set_keys();
}

void ControlLinks::Impl::refuse(std::optional<PeerId> peer, std::string detail) {
  ++counters.refused;
  // A flood of bad frames or strangers is reported at most once a second.
  const auto now = Clock::now();
  if (now - refusal_told < std::chrono::seconds(1)) return;
  refusal_told = now;
  callbacks.fact(LinkRefused{.peer = peer, .why = std::move(detail), .refused = counters.refused});
}

/// Says hello again on a link whose other side has refused our settings, because that side may have
/// restarted with our settings and may be unable to dial us. Dials again if the last hello was not
/// answered.
void ControlLinks::Impl::ask_again(PeerId peer, Link& link) {
  Dealer& dealer = *link.dealer;
  const auto now = Clock::now();
  if (now - dealer.said_hello <= dial_again_after) return;
  // The link starts over: messages wait until it is up, and it does not count as idle.
  dealer.opened = dealer.pulse.used = now;
  dealer.pulse.asked.reset();
  if (dealer.pulse.heard < dealer.said_hello) {
    dial_again(peer, link.peer.key, dealer);
  } else {
    say_hello(dealer);
  }
}

void ControlLinks::Impl::housekeeping() {
  const auto now = Clock::now();
  conduct.tick(steady_time());
  for (const std::optional<PeerId>& peer : connections.tick(steady_time())) {
    if (peer) {
      offend(*peer, "a message without an end");
    } else {
      refuse(std::nullopt, "a message without an end");
    }
  }
  if (has_quarantined) set_keys();
  while (!shows.empty() && now - shows.front().first > show_patience) shows.pop_front();
  for (auto& [peer, link] : links) {
    if (!link.dealer) continue;
    Dealer& dealer = *link.dealer;
    connect_by_name(peer, dealer);
    if (link.refused) {
      ask_again(peer, link);
    } else if (now - dealer.pulse.used > options.idle_close) {
      link.dealer.reset();
    } else if (dealer.pulse.is_overdue(now)) {
      dial_again(peer, link.peer.key, dealer);
    } else if (dealer.up && dealer.pulse.is_in_doubt(now)) {
      // A hello, which contains all common settings, would take a hundred times as many bytes.
      put(*dealer.watch, encode(LinkCheck{}));
      dealer.pulse.asked = now;
    } else if (!dealer.up && now - dealer.dialled > dial_again_after) {
      dial_again(peer, link.peer.key, dealer);
    } else if (!dealer.up && now - dealer.said_hello > hello_again) {
      say_hello(dealer);
    }
  }
  tend_routes();
  tend_joins();
  const bool overdue =
      first_contact != Clock::time_point{} && now - first_contact > dial_back_patience;
  if (!advertised.empty() && overdue && !was_dialled && !told_unreachable) {
    told_unreachable = true;
    callbacks.fact(NotReachable{.address = advertised});
  }
  timer->expires_after(link_housekeeping_period);
  timer->async_wait([this, weak = std::weak_ptr(timer)](asio::error_code error) {
    if (!error && !weak.expired()) housekeeping();
  });
}

ControlLinks::ControlLinks(asio::io_context& io, Options options, Callbacks callbacks)
    : impl_(std::make_unique<Impl>(io, std::move(options), std::move(callbacks))) {}

ControlLinks::~ControlLinks() = default;

const std::string& ControlLinks::listening() const { return impl_->listening; }

const std::string& ControlLinks::advertised() const { return impl_->advertised; }

void ControlLinks::dial(PeerId peer, const std::string& address) {
  const auto found = impl_->links.find(peer);
  if (found == impl_->links.end() || impl_->is_quarantined(peer)) return;
  set_address(peer, address);
  if (!found->second.dealer) impl_->open(peer, found->second);
}

void ControlLinks::set_address(PeerId peer, const std::string& address) {
  const auto found = impl_->links.find(peer);
  if (found == impl_->links.end() || found->second.address == address) return;
  found->second.address = address;
  // A working link stays. A dealer that is not up makes way for one to the new address.
  if (found->second.dealer && !found->second.dealer->up) found->second.dealer.reset();
}

bool ControlLinks::send(PeerId to, const Message& message) { return impl_->send(to, message); }

bool ControlLinks::send(PeerId to, const LaneInvite& invite) { return impl_->send(to, invite); }

bool ControlLinks::send(PeerId to, const RelayStep& step) { return impl_->send(to, step); }

bool ControlLinks::is_linked(PeerId peer) const {
  const auto found = impl_->links.find(peer);
  if (found == impl_->links.end() || impl_->is_quarantined(peer)) return false;
  const Impl::Link& link = found->second;
  return !link.refused && ((link.dealer && link.dealer->up) || link.route.works());
}

void ControlLinks::offend(PeerId peer, const std::string& why) { impl_->offend(peer, why); }

void ControlLinks::quarantine(PeerId peer) {
  if (impl_->is_quarantined(peer) || !impl_->links.contains(peer)) return;
  impl_->conduct.quarantine(steady_time(), peer);
  impl_->cut(peer);
}

const Roster& ControlLinks::roster() const { return impl_->roster; }

void ControlLinks::authorize(std::vector<AuthorizedPeer> authorized) { impl_->allow(authorized); }

void ControlLinks::admit_guests(const std::vector<PublicKey>& keys) {
  std::map<PublicKey, Impl::Guest> guests;
  const Impl::Guest fresh{.frames = RateLimit(guest_frames),
                          .exams = RateLimit(impl_->options.exams)};
  for (const PublicKey& key : keys) {
    const auto before = impl_->guests.find(key);
    guests.emplace(key, before == impl_->guests.end() ? fresh : before->second);
  }
  impl_->guests = std::move(guests);
  impl_->set_keys();
}

void ControlLinks::show(const PublicKey& there, const std::string& address, const PublicKey& swarm,
                        const Certificates& chain) {
  impl_->show(there, address, swarm, chain);
}

const ControlLinks::Counters& ControlLinks::counters() const { return impl_->counters; }

}  // namespace gv
