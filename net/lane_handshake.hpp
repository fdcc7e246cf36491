// Listens and dials for lanes, and makes both ends prove that they were invited.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "net/control_links.hpp"
#include "net/lane_connection.hpp"
#include "net/lane_security.hpp"

namespace gv {

/// Turns invitations into proved connections. A peer that connects has three seconds to prove that
/// it holds the token of an expected lane. Until then nothing it sends is trusted, and it may lose
/// its place if too many connections wait. All calls must come from the thread of `io`.
class LaneHandshake {
 public:
  struct Options {
    std::string listen_host;     ///< Interface to listen on; empty to dial out only.
    std::string advertise_host;  ///< Host that others dial; empty means `listen_host`.
    std::uint16_t port = 0;      ///< Port to listen on; 0 means any free one.
    std::string dial_from;       ///< Address to dial from; empty means the system's choice.
    bool local = true;           ///< True if Unix sockets may be used.
    bool remote = true;          ///< True if TCP may be dialled.
    bool plain = false;          ///< True if TCP is used without TLS.
    std::filesystem::path socket_folder;
    std::shared_ptr<SharedBuffer> lent;  ///< Shared with partners on this host; may be null.
  };

  /// The use of a connection after both ends have proved that they hold the token.
  enum class Use {
    lane,   ///< As a lane, over TLS unless plain lanes are allowed.
    relay,  ///< For relaying, without TLS, because relayed bytes are encrypted already.
    /// As a lane, over TLS inside a connection of dial_through(); never for incoming connections.
    behind_relay
  };

  /// The result of a proof. Lane numbers are chosen by peers, so a number alone does not identify
  /// the peer of a connection.
  struct Proved {
    std::uint64_t lane = 0;
    PeerId peer{};  ///< The peer from which the lane was expected; none for a lane without a peer.
    Use use = Use::lane;
  };

  struct Callbacks {
    std::function<void(const Proved&, ConnectionPtr)> accepted;
    std::function<void(Fact)> fact;
  };

  /// Called once with the proved connection, or with null if none can be made.
  using Dialled = std::function<void(ConnectionPtr)>;

  /// Throws std::runtime_error with the remedy if it cannot listen on the address.
  LaneHandshake(asio::io_context& io, Options options, Callbacks callbacks);
  ~LaneHandshake();

  /// The "host:port" that we listen on, and the one that others dial; empty when dialling out only.
  const std::string& listening() const;
  const std::string& advertised() const;

  /// Fills in the addresses at which this peer can be dialled.
  void describe(LaneInvite& invite) const;

  /// For a few seconds or until expect_no_more(), admits a connection that proves with `token` that
  /// it belongs to `lane`. The connection then counts as a connection of `peer`. Returns false and
  /// changes nothing if the lane's number is in use, because no peer may replace the token of
  /// another peer's lane.
  bool expect(std::uint64_t lane, const LaneToken& token, Use use = Use::lane, PeerId peer = {});
  bool expects(std::uint64_t lane) const;
  /// True if a lane with this number is expected or dialled.
  bool uses(std::uint64_t lane) const;
  /// Undoes expect(). Also gives up dialling that lane, without calling the `done` of dial().
  void expect_no_more(std::uint64_t lane);

  /// Dials the sender of the invitation, through its Unix socket if it is on this host. The lane
  /// must be expected. Both ends prove its token within three seconds. The address is not checked
  /// here, but a Unix socket is dialled only if it can belong to a peer of the same user.
  void dial(const LaneInvite& invite, Dialled done);

  /// Dials a relay according to `way`, and opens lane `lane` through it. The peer at the other end
  /// dials the relay too. TLS uses the token of `lane`, which must be expected from `peer` behind a
  /// relay. Exactly one of the two ends is the client. `way.lane` must also be expected.
  void dial_through(const LaneInvite& way, std::uint64_t lane, PeerId peer, bool is_client,
                    Dialled done);

  /// Closes connections whose proof is overdue, and forgets old invitations. Call periodically.
  void tidy_up();

  std::uint64_t refused() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gv
