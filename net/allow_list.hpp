// ZeroMQ's authentication question (ZAP, RFC 27), answered from the allow-list and failing closed.
#pragma once

#include <asio/io_context.hpp>
#include <map>
#include <memory>
#include <set>
#include <zmq.hpp>

#include "net/identity.hpp"
#include "net/rate_limit.hpp"
#include "net/socket_watch.hpp"

namespace gv {

/// Answers for every CURVE handshake of its context whether the key may in: if it is on the list,
/// and does not ask too often. It must exist before any socket of the context binds: a server
/// without an answerer would let every key in.
class AllowList {
 public:
  AllowList(asio::io_context& io, zmq::context_t& context);

  void set(const std::set<PublicKey>& keys);

  /// Answers what is waiting; called by the loop, and by hand before it runs.
  void serve();

  /// Makes `server` a CURVE server that admits only the keys of this list. Call before bind. Throws
  /// std::runtime_error when the library refuses an option that security hangs on.
  static void protect(zmq::socket_t& server, const CurveKeyPair& identity);

 private:
  std::map<CurveKey, PublicKey> keys_;
  std::map<CurveKey, RateLimit> handshakes_;
  std::shared_ptr<SocketWatch> answers_;
};

/// Makes `client` speak as `own` to the server with the key `server`. Call before connect.
void dial_as(zmq::socket_t& client, const CurveKeyPair& own, const PublicKey& server);

/// The key of the peer that sent this message, as AllowList certified it; empty if it was not
/// certified.
std::optional<PublicKey> sender_key(const zmq::message_t& message);

}  // namespace gv
