// The state of lanes that are being opened. Included only by the sources of the handshake.
#pragma once

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/local/stream_protocol.hpp>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "net/address_lookup.hpp"
#include "net/lane_handshake.hpp"
#include "net/lane_listener.hpp"
#include "net/lane_proof.hpp"

namespace gv {

struct LaneHandshake::Impl {
  using Clock = LaneConnection::Clock;
  using Socket = LaneConnection::Socket;
  using tcp = asio::ip::tcp;
  using stream_protocol = asio::local::stream_protocol;

  /// A token that we sent or received in an invitation.
  struct Expected {
    LaneToken token{};
    Clock::time_point until;
    Use use = Use::lane;
    PeerId peer{};
  };

  /// A lane that we dial. Its handlers do nothing once it is no longer among `dials`.
  struct Dial {
    explicit Dial(asio::io_context& io) : unix_socket(io), tcp_socket(io) {}

    LaneInvite invite;
    Dialled done;
    Clock::time_point until;
    stream_protocol::socket unix_socket;
    tcp::resolver::results_type addresses;  ///< All addresses to which the name resolved.
    tcp::resolver::results_type::const_iterator next;
    tcp::socket tcp_socket;    ///< Socket of the current attempt.
    ConnectionPtr connection;  ///< Set once a socket is connected.
  };
  using DialPtr = std::shared_ptr<Dial>;

  Impl(asio::io_context& loop, Options given, Callbacks calls);
  ~Impl();

  void choose_source();
  void listen_tcp();
  void listen_unix();
  void welcome(LaneListener& listener, const ConnectionPtr& connection, bool at_home);
  void begin(LaneListener& listener, const ConnectionPtr& connection, bool at_home, char first);
  void welcome_tls(LaneListener& listener, const ConnectionPtr& connection);
  void welcome_plain(LaneListener& listener, const ConnectionPtr& connection, bool at_home);
  void named(const SSL* ssl);

  void dial_unix(const DialPtr& dial);
  void dial_tcp(const DialPtr& dial);
  void connect(const DialPtr& dial);
  void prove_tls(const DialPtr& dial);
  void prove_plain(const DialPtr& dial, bool at_home);
  void secure(ConnectionPtr connection, const Proved& wanted, bool is_client, Dialled done);
  bool goes_plain(std::uint64_t lane) const;
  bool is_expected(const Proved& wanted) const;
  std::optional<Proved> proved_by(std::uint64_t lane, bool is_plain) const;
  bool relays() const;
  bool is_current(const DialPtr& dial) const;
  void finish(const DialPtr& dial, bool proved);
  void end_dial(std::uint64_t lane);
  void end_late_dials();

  /// Calls `then` with true if a valid proof for an expected lane arrives, otherwise with false.
  void await_proof(const ConnectionPtr& connection, std::shared_ptr<ArrivingProof> arriving,
                   bool by_dialler, std::function<void(bool)> then);
  std::optional<LaneToken> token_of(std::uint64_t lane) const;
  /// Sets whether the listeners expect a partner to dial us. Call after each change of `expected`
  /// or `dials`.
  void update_listeners();

  asio::io_context& io;
  Options options;
  Callbacks callbacks;
  LaneTls tls;
  std::optional<LaneListener> tcp_listener;
  std::optional<LaneListener> unix_listener;
  std::string listening;
  std::string advertised;
  std::optional<tcp::endpoint> source;  ///< Address to dial from, if given.
  std::filesystem::path unix_path;
  std::uint64_t host = 0;
  std::map<std::uint64_t, Expected> expected;
  std::map<std::uint64_t, DialPtr> dials;  ///< Keyed by lane.
  AddressLookup lookup{io};
  std::uint64_t dials_failed = 0;
  /// Handlers hold a weak pointer to this. Once it has expired, the objects that they use are gone.
  std::shared_ptr<int> alive = std::make_shared<int>(0);
};

}  // namespace gv
