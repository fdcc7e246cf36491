// Handles ZAP requests, and sets the socket options that enforce the answers.
#include "net/allow_list.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "net/steady_time.hpp"

namespace gv {
namespace {

constexpr const char* zap_endpoint = "inproc://zeromq.zap.01";
constexpr const char* domain = "grapevine";

/// The value of ZMQ_ZAP_ENFORCE_DOMAIN, which ZeroMQ's header hides in builds without draft
/// interfaces, although the library supports it. Without this option, a server with no ZAP handler
/// admits every key.
constexpr int enforce_domain_option = 93;

/// Limit on the handshakes of one key. A correct peer needs far fewer.
constexpr RateLimit::Options handshakes_allowed{.per_second = 1, .burst = 30};
/// Limit on the handshakes of a key that many machines share. A ticket may admit 256 machines at
/// once.
constexpr RateLimit::Options shared_handshakes_allowed{.per_second = 20, .burst = 300};

constexpr std::size_t zap_frames = 7;  ///< Version, id, domain, address, identity, mechanism, key.

}  // namespace

AllowList::AllowList(asio::io_context& io, zmq::context_t& context) {
  zmq::socket_t socket(context, zmq::socket_type::rep);
  socket.set(zmq::sockopt::linger, 0);
  socket.bind(zap_endpoint);
  answers_ =
      std::make_shared<SocketWatch>(io, std::move(socket), [this](SocketWatch&) { serve(); });
  answers_->start();
}

void AllowList::set(const std::set<PublicKey>& keys, const std::set<PublicKey>& shared) {
  keys_.clear();
  // Reuse the keys that are already converted. Lists are set often, and converting a thousand keys
  // each time would hold up the event loop.
  std::map<PublicKey, std::optional<CurveKey>> before = std::exchange(curves_, {});
  for (const auto* from : {&shared, &keys}) {
    for (const PublicKey& key : *from) {
      const auto known = before.find(key);
      const auto curve = known != before.end() ? known->second : curve_key(key);
      curves_[key] = curve;
      if (curve) keys_[*curve] = {key, from == &shared};
    }
  }
  // Keep the handshake count of a removed key until its allowance has refilled. Otherwise, a key
  // could get a new allowance by leaving the list and coming back.
  std::erase_if(handshakes_, [this](const auto& item) {
    return !keys_.contains(item.first) && item.second.is_full(steady_time());
  });
}

/// Counts a handshake with a key. Returns false if the key is not on the list, or has made too many
/// handshakes.
bool AllowList::admits(const CurveKey& key) {
  const auto known = keys_.find(key);
  if (known == keys_.end()) return false;
  const auto& allowed = known->second.is_shared ? shared_handshakes_allowed : handshakes_allowed;
  return handshakes_.try_emplace(key, allowed).first->second.take(steady_time());
}

void AllowList::serve() {
  zmq::socket_t& socket = answers_->socket();
  while (true) {
    std::vector<zmq::message_t> request;
    bool more = true;
    while (more) {
      zmq::message_t frame;
      if (!answers_->receive(frame)) return;
      more = frame.more();
      request.push_back(std::move(frame));
    }
    CurveKey key{};
    const bool curve = request.size() == zap_frames && request[5].to_string_view() == "CURVE" &&
                       request[2].to_string_view() == domain &&
                       request[6].size() == std::tuple_size_v<CurveKey>;
    if (curve) std::memcpy(key.data(), request[6].data(), key.size());
    const bool admitted = curve && admits(key);
    const std::string id = request.size() > 1 ? request[1].to_string() : std::string();
    const std::string user = admitted ? to_text(keys_.at(key).key) : std::string();
    const std::array<std::string, 6> answer = {
        "1.0", id, admitted ? "200" : "400", admitted ? "OK" : "this key may not join", user, ""};
    for (std::size_t i = 0; i < answer.size(); ++i) {
      const bool last = i + 1 == answer.size();
      socket.send(zmq::buffer(answer[i]), last ? zmq::send_flags::none : zmq::send_flags::sndmore);
    }
  }
}

void AllowList::protect(zmq::socket_t& server, const CurveKeyPair& identity) {
  server.set(zmq::sockopt::curve_server, true);
  server.set(zmq::sockopt::curve_publickey,
             zmq::buffer(identity.public_key.data(), identity.public_key.size()));
  server.set(zmq::sockopt::curve_secretkey,
             zmq::buffer(identity.secret_key.data(), identity.secret_key.size()));
  server.set(zmq::sockopt::zap_domain, domain);
  const int on = 1;
  if (zmq_setsockopt(server.handle(), enforce_domain_option, &on, sizeof on) != 0) {
    throw std::runtime_error(
        "this build of libzmq cannot enforce its authentication domain; use version 4.3.4 or "
        "later");
  }
}

void dial_as(zmq::socket_t& client, const CurveKeyPair& own, const PublicKey& server) {
  // If the server's key cannot be converted, use a key that no server has, so that no handshake
  // succeeds.
  const CurveKey there = curve_key(server).value_or(CurveKey{});
  client.set(zmq::sockopt::curve_serverkey, zmq::buffer(there.data(), there.size()));
  client.set(zmq::sockopt::curve_publickey,
             zmq::buffer(own.public_key.data(), own.public_key.size()));
  client.set(zmq::sockopt::curve_secretkey,
             zmq::buffer(own.secret_key.data(), own.secret_key.size()));
}

std::optional<PublicKey> sender_key(const zmq::message_t& message) {
  const char* user = zmq_msg_gets(message.handle(), "User-Id");
  if (user == nullptr) return std::nullopt;
  return public_key_from_text(user);
}

}  // namespace gv
