// Bulk lanes carry blocks of tensors: TLS 1.3 with a one-time key, plain TCP, or within one host.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "consensus/message/effects.hpp"
#include "net/control_links.hpp"
#include "net/lane_security.hpp"
#include "net/rate_limit.hpp"
#include "net/shared_buffer.hpp"

namespace gv {

/// Opens a lane to a peer when there is something to send, keeps it while it is used, and closes it
/// when idle. The side that can dial does; both directions share one connection. Sends straight
/// from the payload's memory and holds at most one received block per lane. Within one host, blocks
/// travel through shared memory. Blocks in a SharedBuffer are not even copied: the partner reads
/// them in place, and its `block` callback gets them with a hold. We keep the owner of such a block
/// until the partner is done with it or gone. All calls on the thread of `io`.
class BulkLanes {
 public:
  enum class Security { automatic, tls, plain, unix_socket };

  struct Options {
    std::string listen_host;             ///< Interface to listen on; empty: dial out only.
    std::string advertise_host;          ///< Host others dial; empty: `listen_host`.
    std::uint16_t port = 0;              ///< Port to listen on; 0 = any free one.
    std::string dial_from;               ///< Address to dial from; empty: the system's choice.
    bool trusted_network = false;        ///< Allows and prefers plain TCP between hosts.
    std::shared_ptr<SharedBuffer> lent;  ///< Blocks in this buffer are not copied; may be null.
    Security security =
        Security::automatic;  ///< automatic: a Unix socket on one host, otherwise TLS or plain.
    std::filesystem::path socket_folder;  ///< For the Unix socket; created with mode 0700.
    std::size_t budget_bytes = 64 << 20;  ///< Bound on the memory of all lanes together.
    std::size_t lanes_max = 64;
    Duration progress_deadline = std::chrono::seconds(5);
    Duration idle_close = std::chrono::seconds(60);
    /// Limit on the messages of one peer, as on links. Blocks do not count. Beyond it, the lane
    /// ends.
    RateLimit::Options messages = {.per_second = 20000, .burst = 40000};
    PeerId self{};  ///< Decides which end of a relayed lane begins.
    /// How long a peer must be unreachable before a relay is asked. It may be about to dial us.
    Duration relay_patience = std::chrono::seconds(2);
  };

  struct Callbacks {
    std::function<void(PeerId, const Block&)> block;
    /// Returns memory for an arriving block of `bytes`. If the result is empty, or without this
    /// function, the lane uses its own memory. Called before every read; the memory is written to
    /// only during that read. If the answer changes before the block is complete, the block is
    /// dropped.
    std::function<std::span<std::byte>(PeerId, const TransferId&, std::uint64_t offset,
                                       std::size_t bytes)>
        place;
    std::function<void(Envelope)> message;  ///< A message that arrived over a lane.
    std::function<void(PeerId)> lost;       ///< The lane broke or was closed by the peer.
    std::function<void(PeerId)> refused;    ///< No lane to this peer can be opened.
    std::function<void(Fact)> fact;
    std::function<bool(PeerId, const LaneInvite&)> send_invite;  ///< ControlLinks::send.
    /// A lane has ended because of bytes that no correct peer sends. They count against the peer.
    std::function<void(PeerId, const std::string& why)> unsound = {};

    // Callbacks for lanes through a third peer. Without them there are no such lanes.

    std::function<bool(PeerId, const RelayStep&)> send_relay = {};  ///< ControlLinks::send.
    /// True if there is a link to the peer, which then needs no relay.
    std::function<bool(PeerId)> is_linked = {};
    /// Peers that may relay to this one, the best first.
    std::function<std::vector<PeerId>(PeerId)> relays = {};
    /// Dials a peer that has asked for a relay to us, because perhaps only the other direction
    /// fails. Returns false if that makes no sense, or was tried a moment ago.
    std::function<bool(PeerId)> dial_directly = {};
    /// The secret that only that peer and we can compute; nullopt if it may not take part.
    std::function<std::optional<LaneToken>(PeerId, std::uint64_t stream)> pair_token = {};
  };

  BulkLanes(asio::io_context& io, Options options, Callbacks callbacks);
  ~BulkLanes();

  /// "host:port" we listen on for lanes; empty when dialling out only.
  const std::string& listening() const;

  /// Call when an invitation or its answer has arrived on the control link of `from`.
  void receive_invite(PeerId from, const LaneInvite& invite);
  /// Call when a step towards a relayed lane has arrived there.
  void receive_relay(PeerId from, const RelayStep& step);

  /// Call when no message reaches a peer. If this continues, asks another peer to relay a lane to
  /// it. A relay can neither read nor change the data.
  void reach(PeerId peer);
  /// Call when a link to the peer has come up.
  void reached(PeerId peer);
  /// Call while there is a link to a peer with a relayed lane. The relayed lane ends when it is
  /// idle, and the next transfer opens a direct one. If none can be opened, relays are asked again.
  void prefer_direct(PeerId peer);
  /// The peer that relays our lane to this one; nullopt if the lane is direct or there is none.
  std::optional<PeerId> relay_of(PeerId peer) const;

  /// Fills in the address of our lanes and, unless another one is under way, the offer of a lane
  /// that echoes its input.
  void offer_echo(ExamAnswer& answer);

  /// Streams the transfer, and opens a lane first if there is none. Drops superseded transfers that
  /// have not started yet.
  void send(Transfer transfer);
  void cancel(const Cancel& cancel);

  /// Sends a small message ahead of the blocks on an open lane, which costs both ends half the
  /// wake-ups of a control link. Returns false without sending if no lane to the peer is open or
  /// too many messages wait on it.
  bool send_message(PeerId to, const Message& message);

  /// Call when an answer of the peer is overdue. Gives up its lane as broken if nothing arrived on
  /// it recently: after damaged bytes a connection can wait forever for the end of a record.
  void doubt(PeerId peer);

  /// Call when the peer is gone. Closes its lane and drops its transfers, without a callback.
  void forget(PeerId peer);

  struct Counters {
    std::uint64_t bytes_sent = 0, bytes_received = 0;
    std::uint64_t lanes_opened = 0, lanes_refused = 0;
    std::uint64_t superseded = 0;       ///< Transfers dropped for newer ones.
    std::uint64_t streams_relayed = 0;  ///< Streams relayed now for pairs of other peers.
    std::uint64_t bytes_relayed = 0;
  };
  Counters counters() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gv
