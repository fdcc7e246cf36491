// Tries each key with its own ZeroMQ socket, and watches the outcome through the socket's monitor.
#include "cli/doctor/handshake.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <utility>
#include <zmq.hpp>

#include "net/allow_list.hpp"
#include "net/host_address.hpp"
#include "net/socket_watch.hpp"

namespace gv {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto patience = std::chrono::seconds(4);
/// Number of keys tried at once. Each one costs the other peer a handshake.
constexpr std::size_t at_once = 16;
constexpr int watched = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
                        ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL;

/// An attempt to connect with one peer's key.
struct Attempt {
  std::string name;
  PublicKey key{};
  zmq::socket_t dealer;
  zmq::socket_t events;
  bool has_failed = false;
};

Attempt begin(zmq::context_t& context, const std::string& address, const CurveKeyPair& own,
              const AuthorizedPeer& peer) {
  Attempt attempt{.name = peer.name,
                  .key = peer.key,
                  .dealer = zmq::socket_t(context, zmq::socket_type::dealer),
                  .events = zmq::socket_t(context, zmq::socket_type::pair)};
  attempt.dealer.set(zmq::sockopt::linger, 0);
  attempt.dealer.set(zmq::sockopt::ipv6, is_ipv6(address));
  // One attempt is enough, because a key that failed once fails again.
  attempt.dealer.set(zmq::sockopt::reconnect_ivl, -1);
  dial_as(attempt.dealer, own, peer.key);
  const std::string monitor = "inproc://handshake-" + to_text(peer.key);
  zmq_socket_monitor(attempt.dealer.handle(), monitor.c_str(), watched);
  attempt.events.set(zmq::sockopt::linger, 0);
  attempt.events.connect(monitor);
  attempt.dealer.connect("tcp://" + address);
  return attempt;
}

/// Returns the monitor's next event, or 0 if none is waiting.
std::uint16_t next_event(zmq::socket_t& events) {
  zmq::message_t event;
  zmq::message_t address;
  if (!events.recv(event, zmq::recv_flags::dontwait)) return 0;
  static_cast<void>(events.recv(address, zmq::recv_flags::dontwait));
  std::uint16_t what = 0;
  if (event.size() >= sizeof what) std::memcpy(&what, event.data(), sizeof what);
  return what;
}

/// Waits until one attempt succeeds or is refused because of our key, until all attempts have
/// failed, or until the time `until`. In the first two cases, stores the answering peer's name and
/// key in `found`.
Handshake::Outcome settle(std::vector<Attempt>& attempts, Clock::time_point until,
                          Handshake& found) {
  const auto is_open = [](const Attempt& attempt) { return !attempt.has_failed; };
  while (std::ranges::any_of(attempts, is_open) && Clock::now() < until) {
    std::vector<zmq::pollitem_t> items;
    for (Attempt& attempt : attempts) {
      items.push_back({.socket = attempt.events.handle(), .fd = 0, .events = ZMQ_POLLIN});
    }
    (void)await_input(std::move(items), until);
    for (Attempt& attempt : attempts) {
      const std::uint16_t what = next_event(attempt.events);
      if (what == 0) continue;
      attempt.has_failed = true;
      if (what == ZMQ_EVENT_HANDSHAKE_SUCCEEDED || what == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) {
        found.name = attempt.name;
        found.key = attempt.key;
      }
      if (what == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) return Handshake::Outcome::admitted;
      if (what == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) return Handshake::Outcome::refused;
    }
  }
  return Handshake::Outcome::unknown;
}

}  // namespace

Handshake shake_hands(const std::string& address, const KeyPair& identity,
                      const std::vector<AuthorizedPeer>& others) {
  Handshake found{.address = address, .tried = others.size()};
  // Peers whose listed address is this one come first, so the others are rarely tried.
  std::vector<AuthorizedPeer> order = others;
  const auto unlisted =
      std::stable_partition(order.begin(), order.end(),
                            [&](const AuthorizedPeer& peer) { return peer.address == address; });
  const auto listed = static_cast<std::size_t>(unlisted - order.begin());
  const CurveKeyPair own = curve_keys(identity);
  zmq::context_t context;
  const auto until = Clock::now() + patience;
  std::size_t end = 0;
  for (std::size_t first = 0; first < order.size(); first = end) {
    end = first < listed ? listed : std::min(order.size(), first + at_once);
    std::vector<Attempt> attempts;
    for (std::size_t i = first; i < end; ++i) {
      attempts.push_back(begin(context, address, own, order[i]));
    }
    found.outcome = settle(attempts, until, found);
    for (Attempt& attempt : attempts) zmq_socket_monitor(attempt.dealer.handle(), nullptr, 0);
    if (found.outcome != Handshake::Outcome::unknown) break;
  }
  return found;
}

}  // namespace gv
