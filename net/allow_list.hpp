// Answers ZeroMQ's authentication requests (ZAP, RFC 27) from the allow-list. Fails closed.
#pragma once

#include <asio/io_context.hpp>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <zmq.hpp>

#include "net/identity.hpp"
#include "net/rate_limit.hpp"
#include "net/socket_watch.hpp"

namespace gv {

/// Decides which keys may complete CURVE handshakes with the servers of its context: only keys on
/// the list, and only at a limited rate. It must exist before any socket of the context binds,
/// because a server without a ZAP handler admits every key.
class AllowList {
 public:
  AllowList(asio::io_context& io, zmq::context_t& context);

  /// Replaces the list. Each key in `shared` may be used by many machines, so it gets a higher
  /// limit on handshakes.
  void set(const std::set<PublicKey>& keys, const std::set<PublicKey>& shared = {});

  /// The number of keys whose handshakes are counted. A key that has left the list is counted until
  /// its allowance has refilled.
  std::size_t counted() const { return handshakes_.size(); }

  /// Answers all waiting requests. The event loop calls this. Before the loop runs, call it
  /// explicitly.
  void serve();

  /// Makes `server` a CURVE server that admits only the keys of this list. Call before bind. Throws
  /// std::runtime_error if the library lacks an option that security depends on.
  static void protect(zmq::socket_t& server, const CurveKeyPair& identity);

 private:
  struct Entry {
    PublicKey key{};
    bool is_shared = false;
  };

  bool admits(const CurveKey& key);

  std::map<CurveKey, Entry> keys_;
  std::map<PublicKey, std::optional<CurveKey>> curves_;  ///< The CURVE key of each peer key.
  std::map<CurveKey, RateLimit> handshakes_;
  std::shared_ptr<SocketWatch> answers_;
};

/// Makes `client` authenticate itself with the key `own` to the server with the key `server`. Call
/// before connect.
void dial_as(zmq::socket_t& client, const CurveKeyPair& own, const PublicKey& server);

/// The key of the peer that sent this message, as authenticated by AllowList; nullopt if the sender
/// was not authenticated.
std::optional<PublicKey> sender_key(const zmq::message_t& message);

}  // namespace gv
