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

/// Admits keys to the CURVE handshakes of its context: only keys on the list, and at a limited
/// rate. It must exist before any socket of the context binds, because a server without a ZAP
/// handler admits every key.
class AllowList {
 public:
  AllowList(asio::io_context& io, zmq::context_t& context);

  /// Many machines may use the same one of the `shared` keys, so these may make more handshakes.
  void set(const std::set<PublicKey>& keys, const std::set<PublicKey>& shared = {});

  /// The number of keys whose handshakes are counted. An unlisted key is counted until it has the
  /// same budget as a new one.
  std::size_t counted() const { return handshakes_.size(); }

  /// Answers all waiting requests. The loop calls this; before the loop runs, call it by hand.
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
  std::map<PublicKey, std::optional<CurveKey>> curves_;  ///< The keys of links, by those of peers.
  std::map<CurveKey, RateLimit> handshakes_;
  std::shared_ptr<SocketWatch> answers_;
};

/// Makes `client` authenticate as `own` to the server with the key `server`. Call before connect.
void dial_as(zmq::socket_t& client, const CurveKeyPair& own, const PublicKey& server);

/// The key of the peer that sent this message, as authenticated by AllowList; empty if it was not.
std::optional<PublicKey> sender_key(const zmq::message_t& message);

}  // namespace gv
