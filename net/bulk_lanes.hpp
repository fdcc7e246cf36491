// Bulk lanes carry blocks of tensors over TLS 1.3 with a one-time key, plain TCP, or shared memory.
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
/// when idle. The side that can dial does so. Both directions share one connection. Sends straight
/// from the payload's memory, and holds at most one received block per lane. Within one host,
/// blocks travel through shared memory. Blocks in a SharedBuffer are not even copied: the partner
/// reads them in place, and its `block` callback receives them with a hold. We keep the owner of
/// such a block alive until the partner is done with the block or is gone. Make all calls on the
/// thread of `io`.
class BulkLanes {
 public:
  enum class Security { automatic, tls, plain, unix_socket };

  struct Options {
    std::string listen_host;       ///< Interface to listen on. If empty, we only dial out.
    std::string advertise_host;    ///< Host that others dial. If empty, `listen_host` is used.
    std::uint16_t port = 0;        ///< Port to listen on; 0 means any free one.
    std::string dial_from;         ///< Address to dial from. If empty, the system chooses.
    bool trusted_network = false;  ///< Allows and prefers plain TCP between hosts.
    std::shared_ptr<SharedBuffer> lent;  ///< Blocks in this buffer are not copied; may be null.
    Security security =
        /// `automatic` is a Unix socket within one host, and otherwise TLS or plain TCP.
        Security::automatic;
    std::filesystem::path socket_folder;  ///< Folder for the Unix socket, created with mode 0700.
    std::size_t budget_bytes = 64 << 20;  ///< Bound on the memory of all lanes together.
    std::size_t lanes_max = 64;
    Duration progress_deadline = std::chrono::seconds(5);
    Duration idle_close = std::chrono::seconds(60);
    /// Limit on the rate of one peer's messages, the same as on links. Blocks do not count. A peer
    /// that exceeds the limit loses its lane.
    RateLimit::Options messages = {.per_second = 20000, .burst = 40000};
    PeerId self{};  ///< This peer's id. It decides which end of a relayed lane begins.
    /// How long a peer must be unreachable before we ask for a relay. We wait because the peer may
    /// be about to dial us.
    Duration relay_patience = std::chrono::seconds(2);
  };

  struct Callbacks {
    std::function<void(PeerId, const Block&)> block;
    /// Returns memory for an arriving block of `bytes` bytes. If the result is empty, or this
    /// function is not set, the lane uses its own memory. Called before every read, and the memory
    /// is written only during that read. If the result changes before the block is complete, the
    /// block is dropped.
    std::function<std::span<std::byte>(PeerId, const TransferId&, std::uint64_t offset,
                                       std::size_t bytes)>
        place;
    std::function<void(Envelope)> message;  ///< A message that arrived over a lane.
    std::function<void(PeerId)> lost;       ///< The lane broke, or the peer closed it.
    std::function<void(PeerId)> refused;    ///< No lane to this peer can be opened.
    std::function<void(Fact)> fact;
    /// Sends an invitation over the control link. Returns false if it cannot be sent.
    std::function<bool(PeerId, const LaneInvite&)> send_invite;
    /// A lane has ended because the peer sent bytes that no correct peer sends. This counts against
    /// the peer.
    std::function<void(PeerId, const std::string& why)> unsound = {};

    // The callbacks below are for lanes through a third peer. Without them, there are no such
    // lanes.

    /// Sends `RelayStep` messages, which set up a relayed lane, over the control link. Returns
    /// false if the message cannot be sent.
    std::function<bool(PeerId, const RelayStep&)> send_relay = {};
    /// True if we have a link to the peer, which then needs no relay.
    std::function<bool(PeerId)> is_linked = {};
    /// The peers that may relay to the given peer, with the best first.
    std::function<std::vector<PeerId>(PeerId)> relays = {};
    /// Dials a peer that has asked for a relay to reach us, because we may be able to reach it even
    /// though it cannot reach us. Returns false if dialling makes no sense, or was tried a moment
    /// ago.
    std::function<bool(PeerId)> dial_directly = {};
    /// Returns the secret of a stream, which only the given peer and we can compute. Returns
    /// nullopt if we may not open a relayed lane to the peer.
    std::function<std::optional<LaneToken>(PeerId, std::uint64_t stream)> pair_token = {};
  };

  BulkLanes(asio::io_context& io, Options options, Callbacks callbacks);
  ~BulkLanes();

  /// The "host:port" on which we listen for lanes; empty if we only dial out.
  const std::string& listening() const;

  /// Call when an invitation or its answer has arrived on the control link of `from`.
  void receive_invite(PeerId from, const LaneInvite& invite);
  /// Call when a step towards a relayed lane has arrived on the control link of `from`.
  void receive_relay(PeerId from, const RelayStep& step);

  /// Call when no message reaches `peer`. If it stays unreachable, asks another peer to relay a
  /// lane to it. A relay can neither read nor change the data.
  void reach(PeerId peer);
  /// Call when a link to the peer has come up.
  void reached(PeerId peer);
  /// Call while there is a link to a peer with a relayed lane. The relayed lane ends when it is
  /// idle, and the next transfer opens a direct lane. If no direct lane can be opened, relays are
  /// asked again.
  void prefer_direct(PeerId peer);
  /// The peer that relays our lane to `peer`; nullopt if the lane is direct or there is no lane.
  std::optional<PeerId> relay_of(PeerId peer) const;

  /// Fills in the address of our lanes. Also offers a lane that echoes its input, unless such an
  /// offer is already under way.
  void offer_echo(ExamAnswer& answer);

  /// Streams the transfer, after opening a lane if there is none. Drops superseded transfers that
  /// have not started yet.
  void send(Transfer transfer);
  void cancel(const Cancel& cancel);

  /// Sends a small message on an open lane, ahead of the blocks. This costs both ends half as many
  /// wake-ups as a control link would. Returns false, and sends nothing, if no lane to the peer is
  /// open or too many messages are waiting on it.
  bool send_message(PeerId to, const Message& message);

  /// Call when an answer from the peer is overdue. Gives up the peer's lane as broken if nothing
  /// has arrived on it for the time `silence`. A router may have dropped the connection, or damaged
  /// bytes may make it wait forever for the end of a record.
  void doubt(PeerId peer, Duration silence);

  /// Call when the peer is gone. Closes its lane and drops its transfers, without a callback.
  void forget(PeerId peer);

  struct Counters {
    std::uint64_t bytes_sent = 0, bytes_received = 0;
    std::uint64_t lanes_opened = 0, lanes_refused = 0;
    std::uint64_t superseded = 0;       ///< Transfers dropped because newer ones replaced them.
    std::uint64_t streams_relayed = 0;  ///< Streams that we now relay between other peers.
    std::uint64_t bytes_relayed = 0;
  };
  Counters counters() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gv
