// Control links: every small message, over ZeroMQ with CURVE, from and to authorised keys only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "consensus/message/effects.hpp"
#include "net/identity.hpp"
#include "net/rate_limit.hpp"

namespace asio {
class io_context;
}

namespace gv {

class Roster;

/// What both ends of a bulk lane need to open one; travels on control links only.
struct LaneInvite {
  std::uint64_t lane = 0;                ///< Random id of the lane.
  std::array<std::uint8_t, 32> token{};  ///< One-time pre-shared key.
  std::string address;         ///< "host:port" the inviter listens on; empty: cannot be dialled.
  std::string unix_path;       ///< Its Unix socket, useful when both run on one host.
  std::uint64_t host = 0;      ///< Equal for two processes that share a host's network.
  std::uint64_t previous = 0;  ///< The last lane the sender knew: tells a loss from a crossing.
  bool answer = false;         ///< True when this answers the other side's invitation.
  bool refused = false;        ///< The lane cannot be opened.
};

/// One ROUTER that listens and one DEALER per peer that is dialled; a pair of peers needs only one
/// of the two connections and uses whichever is up. All calls on the thread that runs `io`.
class ControlLinks {
 public:
  struct Options {
    KeyPair identity;
    std::string name;  ///< Our name, as others should show it.
    std::vector<AuthorizedPeer> authorized;
    std::string listen;         ///< "host:port", port 0 = any; empty: dial out only.
    std::string advertise;      ///< What others dial; empty: the address listened on.
    std::string dial_from;      ///< Address our connections come from; empty: the system's choice.
    std::uint64_t session = 0;  ///< Random number of this process.
    /// Settings that must be equal on both ends, by field; a difference refuses the link and names
    /// the field.
    std::vector<std::pair<std::string, std::string>> agreement;
    Duration handshake_deadline = std::chrono::seconds(3);
    Duration idle_close = std::chrono::seconds(60);
    /// What a key may send, in frames; a sound peer sends less by far. Its connection ends beyond.
    RateLimit::Options frames = {.per_second = 20000, .burst = 40000};
    /// How long no link is had with a peer that has sent too much that cannot be right.
    Duration quarantine = std::chrono::minutes(1);
  };

  struct Callbacks {
    std::function<void(Envelope)> message;  ///< From an admitted peer.
    std::function<void(PeerId, const LaneInvite&)> invite;
    std::function<void(PeerId)> contact;  ///< The peer is admitted: both hellos agree.
    /// Contact with a restarted process: everything under way with the earlier one is lost. Called
    /// before `contact`.
    std::function<void(PeerId)> restarted;
    std::function<void(Fact)> fact;  ///< Refusals, handshake failures, and so on.
  };

  /// Binds, and proves to itself that a random key is refused. Throws std::runtime_error with a
  /// sentence for people when the port is taken or the self-test fails.
  ControlLinks(asio::io_context& io, Options options, Callbacks callbacks);
  ~ControlLinks();

  /// Where we listen, with the real port; empty when dialling out only.
  const std::string& listening() const;
  /// What others are told to dial; empty when dialling out only.
  const std::string& advertised() const;

  /// Dials "host:port" or "name@host:port" until an authorised peer answers there, with back-off.
  void join(const std::string& address);

  /// Where an authorised peer can be dialled from now on (learnt from membership). Empty forgets
  /// it.
  void set_address(PeerId peer, const std::string& address);

  /// Queues a message. If the peer cannot be reached now, drops the message and returns false.
  bool send(PeerId to, const Message& message);
  bool send(PeerId to, const LaneInvite& invite);

  /// Counts something against a peer's key that no sound peer sends, for example because its
  /// handler threw. With the third within a minute all links with the peer are cut, for a while.
  void offend(PeerId peer, const std::string& why);

  /// Cuts all links with a peer for a while, as after its third offence, but tells no fact: the
  /// caller has one.
  void quarantine(PeerId peer);

  /// The judge of all that is said of peers; it follows the allow-list.
  const Roster& roster() const;

  /// A changed allow-list: links of keys no longer in it are cut at once.
  void authorize(std::vector<AuthorizedPeer> authorized);

  struct Counters {
    std::uint64_t messages_sent = 0, messages_received = 0;
    std::uint64_t bytes_sent = 0, bytes_received = 0;
    std::uint64_t refused = 0;  ///< Strangers, unsound frames, disagreeing hellos.
  };
  const Counters& counters() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gv
