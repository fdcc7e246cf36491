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

/// Turns invitations into proved connections. A peer that connects has three seconds to show that
/// it holds the token of an expected lane; until then nothing it sends is believed, and it gives
/// way if too many others wait as well. All calls on the thread of `io`.
class LaneHandshake {
 public:
  struct Options {
    std::string listen_host;     ///< Interface to listen on; empty: dial out only.
    std::string advertise_host;  ///< Host others dial; empty: `listen_host`.
    std::uint16_t port = 0;      ///< Port to listen on; 0 = any free one.
    std::string dial_from;       ///< Address to dial from; empty: the system's choice.
    bool local = true;           ///< Unix sockets may be used.
    bool remote = true;          ///< TCP may be dialled.
    bool plain = false;          ///< TCP goes without TLS.
    std::filesystem::path socket_folder;
    std::shared_ptr<SharedBuffer> lent;  ///< Shown to partners on this host; may be null.
  };

  struct Callbacks {
    std::function<void(std::uint64_t lane, ConnectionPtr)> accepted;
    std::function<void(Fact)> fact;
  };

  /// Called once with the proved connection, or with null if there is no way.
  using Dialled = std::function<void(ConnectionPtr)>;

  /// Throws std::runtime_error with the remedy when the address cannot be listened on.
  LaneHandshake(asio::io_context& io, Options options, Callbacks callbacks);
  ~LaneHandshake();

  /// "host:port" we listen on, and the same as others dial it; empty when dialling out only.
  const std::string& listening() const;
  const std::string& advertised() const;

  /// Fills in where this peer can be dialled.
  void describe(LaneInvite& invite) const;

  /// Admits a peer that proves to hold `token` for `lane`, until told otherwise or for a few
  /// seconds.
  void expect(std::uint64_t lane, const LaneToken& token);
  bool expects(std::uint64_t lane) const;
  /// Also gives up dialling that lane; `done` is not called then.
  void expect_no_more(std::uint64_t lane);

  /// Dials the peer that sent the invitation, through its Unix socket if it is on this host. The
  /// lane must be expected; both ends prove its token, within three seconds. The address is dialled
  /// as it is; a Unix socket only if it can be that of a peer of the same user.
  void dial(const LaneInvite& invite, Dialled done);

  /// Closes connections that have not proved themselves in time, and forgets old invitations.
  void tidy_up();

  std::uint64_t refused() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gv
