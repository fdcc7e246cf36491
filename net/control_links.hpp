// Control links carry all small messages, over ZeroMQ with CURVE, between authorised keys only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "consensus/message/effects.hpp"
#include "net/exam.hpp"
#include "net/identity.hpp"
#include "net/rate_limit.hpp"
#include "net/ticket.hpp"

namespace asio {
class io_context;
}

namespace gv {

class Roster;

/// An invitation to open a bulk lane, or the answer to one. It travels on control links only.
struct LaneInvite {
  std::uint64_t lane = 0;                ///< Random id of the lane.
  std::array<std::uint8_t, 32> token{};  ///< One-time pre-shared key.
  std::string address;     ///< The inviter's "host:port"; empty if the inviter cannot be dialled.
  std::string unix_path;   ///< The inviter's Unix socket, useful within one host.
  std::uint64_t host = 0;  ///< Equal for two processes that share a host's network.
  /// Number of the sender's last open lane. It distinguishes a lost lane from an old invitation.
  std::uint64_t previous = 0;
  bool answer = false;   ///< True if this answers the other side's invitation.
  bool refused = false;  ///< True if the lane cannot be opened.
};

/// A step towards a lane between two peers that cannot reach each other, with a third peer as
/// relay. The step travels only on control links.
struct RelayStep {
  enum class Kind : std::uint8_t {
    ask,     ///< To a relay: connect me with `other`.
    offer,   ///< From a relay: dial me, and I will connect you with `other`.
    refuse,  ///< From a relay: it cannot connect us, or is too busy. To a relay: not now.
  };

  Kind kind = Kind::ask;
  PeerId other{};
  std::uint64_t stream = 0;  ///< In an offer: random id of the stream, equal for both ends.
  /// In an offer: the token by which this end proves itself.
  std::array<std::uint8_t, 32> token{};
  std::string address;  ///< In an offer: "host:port" of the relay's lanes.

  friend bool operator==(const RelayStep&, const RelayStep&) = default;
};
constexpr RelayStep::Kind last_value(RelayStep::Kind) { return RelayStep::Kind::refuse; }

/// A request of `grapevine doctor`, within the budget of the sender's key.
struct ExamCall {
  PublicKey from{};
  bool is_guest = false;  ///< True if the sender used the keys of a ticket.
  std::string source;     ///< The numeric address from which the request came.
  ExamRequest request;
  /// Sends the answer on the request's connection, if that still exists. May be called later, even
  /// after the links are gone.
  std::function<void(const ExamAnswer&)> reply;
};

/// One ROUTER that listens, and one DEALER for each dialled peer. A pair of peers needs only one of
/// the two connections and uses the one that is up. All calls must come from the thread that runs
/// `io`.
class ControlLinks {
 public:
  struct Options {
    KeyPair identity;
    std::string name;  ///< Our name, in the form that others should show.
    std::vector<AuthorizedPeer> authorized;
    std::string listen;         ///< "host:port" (port 0 means any); empty to dial out only.
    std::string advertise;      ///< Address that others dial. If empty, `listen` is used.
    std::string dial_from;      ///< Source of our connections; empty means the system's choice.
    std::uint64_t session = 0;  ///< Random number of this process.
    /// Settings that must be equal on both ends, by field. If one differs, the link is refused and
    /// the reason names the field.
    std::vector<std::pair<std::string, std::string>> agreement;
    Duration handshake_deadline = std::chrono::seconds(3);
    Duration idle_close = std::chrono::seconds(60);
    /// Limit on the frames of one key. A connection ends if its key exceeds this limit. A correct
    /// peer sends far fewer frames.
    RateLimit::Options frames = {.per_second = 20000, .burst = 40000};
    /// Limit on the exams of one key. `grapevine doctor` needs two.
    RateLimit::Options exams = {.per_second = 0.1, .burst = 6};
    /// How long a peer gets no link after repeated offences.
    Duration quarantine = std::chrono::minutes(1);
  };

  struct Callbacks {
    std::function<void(Envelope)> message;  ///< Called for a message from an admitted peer.
    std::function<void(PeerId, const LaneInvite&)> invite;
    std::function<void(PeerId)> contact;  ///< Called when a peer is admitted: both hellos agree.
    /// Called before `contact` if the peer's process has restarted. Everything under way with the
    /// earlier process is lost.
    std::function<void(PeerId)> restarted;
    std::function<void(Fact)> fact;  ///< Called for refusals, handshake failures, and so on.
    /// Called when a guest with a ticket's keys asks to join. Returns nullopt if the guest may not
    /// ask. Without this function, there are no guests.
    std::function<std::optional<JoinAnswer>(const PublicKey& guest, const JoinRequest&)> join = {};
    /// Called when a visitor shows certificates.
    std::function<void(const Certificates&)> shown = {};
    /// Called for a step towards a relayed lane.
    std::function<void(PeerId, const RelayStep&)> relay = {};
    /// Returns true if a guest has the keys of one of our tickets. Other guests are not examined
    /// and use up no budget. Without this function, no guest has such keys.
    std::function<bool(const PublicKey& guest)> has_ticket = {};
    /// Called when a peer, or a guest with a ticket, asks to be examined. Without this function, no
    /// exam is answered.
    std::function<void(ExamCall)> examine = {};
  };

  /// Binds the port, and tests that a random key is refused. Throws std::runtime_error with a
  /// sentence for the operator if the port is taken or the test fails.
  ControlLinks(asio::io_context& io, Options options, Callbacks callbacks);
  ~ControlLinks();

  /// The address on which we listen, with the real port; empty when dialling out only.
  const std::string& listening() const;
  /// The address that we ask others to dial; empty when dialling out only.
  const std::string& advertised() const;

  /// Dials "host:port" or "name@host:port", with back-off, until an authorised peer answers there.
  void join(const std::string& address);

  /// Tries for a while to reach an unlinked peer at an address that may be wrong. Unlike join(),
  /// does not report failure. Ignores peers that are not authorised.
  void dial(PeerId peer, const std::string& address);

  /// Sets where an authorised peer can be dialled (learnt from membership). An empty `address`
  /// deletes the known one.
  void set_address(PeerId peer, const std::string& address);

  /// Queues a message. If the peer cannot be reached now, drops the message and returns false.
  bool send(PeerId to, const Message& message);
  bool send(PeerId to, const LaneInvite& invite);
  bool send(PeerId to, const RelayStep& step);

  /// True if a connection with the peer is up and both hellos agree.
  bool is_linked(PeerId peer) const;

  /// Counts an offence by a peer: input that no correct peer sends, such as input whose handler
  /// threw an exception. The third offence within a minute quarantines the peer, which cuts all its
  /// links for a while.
  void offend(PeerId peer, const std::string& why);

  /// Quarantines a peer as its third offence would, but reports no fact, because the caller does.
  void quarantine(PeerId peer);

  /// Returns the roster, which follows the current allow-list and checks what messages say about
  /// peers.
  const Roster& roster() const;

  /// Replaces the allow-list. Links of keys that are no longer in it are cut at once.
  void authorize(std::vector<AuthorizedPeer> authorized);

  /// Replaces the admitted keys of tickets and visitors. Their holders are not peers: they may ask
  /// to join or show certificates, but get no link.
  void admit_guests(const std::vector<PublicKey>& keys);

  /// Shows certificates to the peer with the key `there` at "host:port", as a visitor. Useful when
  /// that peer may not know yet that we belong to its swarm.
  void show(const PublicKey& there, const std::string& address, const PublicKey& swarm,
            const Certificates& chain);

  struct Counters {
    std::uint64_t messages_sent = 0, messages_received = 0;
    std::uint64_t bytes_sent = 0, bytes_received = 0;
    /// Unknown keys, invalid frames and differing hellos, counted together.
    std::uint64_t refused = 0;
  };
  const Counters& counters() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gv
