// Bulk lanes: blocks of tensors over Asio: TLS 1.3 by one-time key, plain, or within one host.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/time.hpp"
#include "consensus/message/effects.hpp"
#include "net/control_links.hpp"
#include "net/shared_buffer.hpp"

namespace gv {

/// Opens a lane to a peer when something is to be sent, keeps it while it is used, closes it when
/// idle. Whoever can dial dials; both directions share one connection. Sends straight from the
/// payload's memory and holds at most one received block per lane; on one host blocks go through
/// memory that both ends share, or are read by the partner where they lie if that is lent memory.
/// Then their owner is kept until the partner says that it is done, or is gone; the partner's
/// `block` is given such a block with a loan. All calls on the thread of `io`.
class BulkLanes {
 public:
  enum class Security { automatic, tls, plain, unix_socket };

  struct Options {
    std::string listen_host;             ///< Interface to listen on; empty: dial out only.
    std::string advertise_host;          ///< Host others dial; empty: `listen_host`.
    std::uint16_t port = 0;              ///< To listen on; 0 = any free one.
    std::string dial_from;               ///< Address to dial from; empty: the system's choice.
    bool trusted_network = false;        ///< Plain TCP allowed and preferred between hosts.
    std::shared_ptr<SharedBuffer> lent;  ///< Blocks that lie there are not copied; may be null.
    Security security =
        Security::automatic;  ///< automatic: Unix socket on one host, else TLS or plain.
    std::filesystem::path socket_folder;  ///< For the Unix socket; created with mode 0700.
    std::size_t budget_bytes = 64 << 20;  ///< Bound on what all lanes together may hold.
    std::size_t lanes_max = 64;
    Duration progress_deadline = std::chrono::seconds(5);
    Duration idle_close = std::chrono::seconds(60);
  };

  struct Callbacks {
    std::function<void(PeerId, const Block&)> block;
    /// Where the bytes of a block shall lie that is under way, so many; or none, or no function: in
    /// the lane's own memory. Asked before every read, and written to only then; a block that got
    /// one answer throughout is given to `block` where it lies, and one that did not is left out.
    std::function<std::span<std::byte>(PeerId, const TransferId&, std::uint64_t offset,
                                       std::size_t bytes)>
        place;
    std::function<void(Envelope)> message;  ///< One that rode along on a lane.
    std::function<void(PeerId)> lost;       ///< A lane with something in flight broke.
    std::function<void(PeerId)> refused;    ///< No lane to this peer can be opened.
    std::function<void(Event)> event;
    std::function<bool(PeerId, const LaneInvite&)> send_invite;  ///< ControlLinks::send.
  };

  BulkLanes(asio::io_context& io, Options options, Callbacks callbacks);
  ~BulkLanes();

  /// "host:port" we listen on for lanes; empty when dialling out only.
  const std::string& listening() const;

  /// An invitation or its answer arrived on the control link of `from`.
  void receive_invite(PeerId from, const LaneInvite& invite);

  /// Streams the transfer, opening a lane first when there is none. What it supersedes, and what
  /// has not begun to be written, is left out.
  void send(Transfer transfer);
  void cancel(const Cancel& cancel);

  /// Sends a small message ahead of the blocks on an open lane, which costs both ends half the
  /// wake-ups of a control link. False, and nothing is sent, when no lane to the peer is open.
  bool send_message(PeerId to, const Message& message);

  /// The peer did not answer in time: a lane on which nothing came of late is given up as broken.
  /// A connection whose bytes were damaged can wait for ever for the end of a record.
  void doubt(PeerId peer);

  /// The peer is gone: closes its lane and forgets its transfers, silently.
  void forget(PeerId peer);

  struct Counters {
    std::uint64_t bytes_sent = 0, bytes_received = 0;
    std::uint64_t lanes_opened = 0, lanes_refused = 0;
    std::uint64_t superseded = 0;  ///< Transfers left out for newer ones.
  };
  Counters counters() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gv
