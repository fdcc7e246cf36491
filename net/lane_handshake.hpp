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
/// its place if too many connections wait. All calls on the thread of `io`.
class LaneHandshake {
 public:
  struct Options {
    std::string listen_host;     ///< Interface to listen on; empty: dial out only.
    std::string advertise_host;  ///< Host others dial; empty: `listen_host`.
    std::uint16_t port = 0;      ///< Port to listen on; 0 = any free one.
    std::string dial_from;       ///< Address to dial from; empty: the system's choice.
    bool local = true;           ///< True if Unix sockets may be used.
    bool remote = true;          ///< True if TCP may be dialled.
    bool plain = false;          ///< True if TCP is used without TLS.
    std::filesystem::path socket_folder;
    std::shared_ptr<SharedBuffer> lent;  ///< Sent to partners on this host; may be null.
  };

  /// The use of a connection that has proved to hold a token.
  enum class Use {
    lane,         ///< As a lane: by TLS, unless plain lanes are allowed.
    relay,        ///< For relaying, without TLS, because relayed bytes are encrypted already.
    behind_relay  ///< By TLS inside a connection of dial_through(); not for incoming connections.
  };

  /// The result of a proof. Peers choose numbers of lanes too, so a number alone does not identify
  /// the connection's peer.
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

  /// Throws std::runtime_error with the remedy if the address cannot be listened on.
  LaneHandshake(asio::io_context& io, Options options, Callbacks callbacks);
  ~LaneHandshake();

  /// The "host:port" we listen on, and the one that others dial; empty when dialling out only.
  const std::string& listening() const;
  const std::string& advertised() const;

  /// Fills in the addresses at which this peer can be dialled.
  void describe(LaneInvite& invite) const;

  /// Admits a connection that proves to hold `token` for `lane`, for a few seconds or until
  /// expect_no_more(). It then counts as one of `peer`. Returns false and changes nothing if the
  /// number is in use, because no peer may replace the token of another's lane.
  bool expect(std::uint64_t lane, const LaneToken& token, Use use = Use::lane, PeerId peer = {});
  bool expects(std::uint64_t lane) const;
  /// True if a lane with this number is expected or dialled.
  bool uses(std::uint64_t lane) const;
  /// Undoes expect(). Also gives up dialling that lane, without calling `done`.
  void expect_no_more(std::uint64_t lane);

  /// Dials the sender of the invitation, through its Unix socket if it is on this host. The lane
  /// must be expected. Both ends prove its token within three seconds. The address is not checked
  /// here, but a Unix socket is dialled only if it can belong to a peer of the same user.
  void dial(const LaneInvite& invite, Dialled done);

  /// Dials a relay according to `way`, and through it makes the lane `lane` with the peer at the
  /// other end, which dials the relay too. TLS uses the token with which `lane` is expected, behind
  /// a relay and from `peer`. One of the two ends is the client. Both `way.lane` and `lane` must be
  /// expected.
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
