// How the two ends of a bulk lane prove to each other that they were invited.
#pragma once

#include <array>
#include <asio/ssl.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace gv {

using LaneToken = std::array<std::uint8_t, 32>;

/// Proof of knowing `token` without showing it: BLAKE2b keyed with the token over (lane,
/// direction).
std::array<std::uint8_t, 32> lane_proof(const LaneToken& token, std::uint64_t lane, bool dialled);

/// Equal in constant time.
bool same_proof(const std::array<std::uint8_t, 32>& a, const std::array<std::uint8_t, 32>& b);

/// Finds the token of an invitation that is open; empty if there is none.
using FindToken = std::function<std::optional<LaneToken>(std::uint64_t lane)>;

/// TLS 1.3 contexts that know no certificates: a pre-shared key, named by its lane, is the only way
/// in. After the handshake `is_mutual` must hold, which says that the key was really used.
class LaneTls {
 public:
  /// `named` is told of each accepted connection whose peer names an invitation that is open,
  /// before it has proved that it holds the token.
  LaneTls(FindToken find, std::function<void(const SSL*)> named);

  asio::ssl::context& context() { return context_; }

  /// Makes `ssl` offer this lane's key when it dials.
  void offer(SSL* ssl, std::uint64_t lane);

  static bool is_mutual(SSL* ssl);

  /// The lane whose key the dialler used, after the handshake on the accepting side.
  static std::uint64_t lane_of(SSL* ssl);

 private:
  static int find_session(SSL* ssl, const unsigned char* identity, std::size_t length,
                          SSL_SESSION** session);
  static int use_session(SSL* ssl, const EVP_MD* digest, const unsigned char** identity,
                         std::size_t* length, SSL_SESSION** session);

  FindToken find_;
  std::function<void(const SSL*)> named_;
  asio::ssl::context context_;
};

}  // namespace gv
