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

/// Returns BLAKE2b of (`lane`, direction), keyed with `token`. `dialled` is true for the side that
/// dialled. The result proves knowledge of the token without revealing it.
std::array<std::uint8_t, 32> lane_proof(const LaneToken& token, std::uint64_t lane, bool dialled);

/// Compares two proofs in constant time.
bool same_proof(const std::array<std::uint8_t, 32>& a, const std::array<std::uint8_t, 32>& b);

/// Returns the token of an open invitation; nullopt if there is none.
using FindToken = std::function<std::optional<LaneToken>(std::uint64_t lane)>;

/// A TLS 1.3 context without certificates: only a pre-shared key, named by its lane, is accepted.
/// After the handshake, `is_mutual` must be true, which shows that the key was really used.
class LaneTls {
 public:
  /// Calls `named` for each accepted connection whose peer names an open invitation, before the
  /// peer proves that it holds the token.
  LaneTls(FindToken find, std::function<void(const SSL*)> named);

  asio::ssl::context& context() { return context_; }

  /// Makes `ssl` offer this lane's key as the dialling side.
  void offer(SSL* ssl, std::uint64_t lane);

  static bool is_mutual(SSL* ssl);

  /// Returns the lane whose key the dialler used. Call on the accepting side, after the handshake.
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
