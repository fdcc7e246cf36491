// One-time keys for lanes: a keyed hash on plain sockets, a pre-shared key in TLS 1.3.
#include "net/lane_security.hpp"

#include <openssl/ssl.h>
#include <sodium.h>

#include <cstring>
#include <memory>

#include "base/check.hpp"

namespace gv {
namespace {

constexpr unsigned char cipher_id[] = {0x13, 0x01};  // TLS_AES_128_GCM_SHA256

/// The name of a lane's pre-shared key: the lane's number, in 8 bytes.
struct LaneName {
  std::uint64_t lane = 0;
};

void free_lane_name(void*, void* pointer, CRYPTO_EX_DATA*, int, long, void*) {
  delete static_cast<LaneName*>(pointer);
}

int lane_index() {
  static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, free_lane_name);
  return index;
}

/// Index at which an SSL context stores its LaneTls. Asio itself uses the slot called application
/// data.
int owner_index() {
  static const int index = SSL_CTX_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return index;
}

LaneTls* owner(SSL* ssl) {
  return static_cast<LaneTls*>(SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), owner_index()));
}

void remember(SSL* ssl, std::uint64_t lane) {
  delete static_cast<LaneName*>(SSL_get_ex_data(ssl, lane_index()));
  SSL_set_ex_data(ssl, lane_index(), new LaneName{lane});
}

SSL_SESSION* make_session(SSL* ssl, const LaneToken& token) {
  const SSL_CIPHER* cipher = SSL_CIPHER_find(ssl, cipher_id);
  SSL_SESSION* session = SSL_SESSION_new();
  const bool made = cipher != nullptr && session != nullptr &&
                    SSL_SESSION_set1_master_key(session, token.data(), token.size()) == 1 &&
                    SSL_SESSION_set_cipher(session, cipher) == 1 &&
                    SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1;
  if (made) return session;
  SSL_SESSION_free(session);
  return nullptr;
}

}  // namespace

std::array<std::uint8_t, 32> lane_proof(const LaneToken& token, std::uint64_t lane, bool dialled) {
  std::array<std::uint8_t, 9> text{};
  std::memcpy(text.data(), &lane, sizeof lane);
  text[8] = dialled ? 1 : 2;
  std::array<std::uint8_t, 32> proof{};
  crypto_generichash(proof.data(), proof.size(), text.data(), text.size(), token.data(),
                     token.size());
  return proof;
}

bool same_proof(const std::array<std::uint8_t, 32>& a, const std::array<std::uint8_t, 32>& b) {
  return sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

LaneTls::LaneTls(FindToken find, std::function<void(const SSL*)> named)
    : find_(std::move(find)), named_(std::move(named)), context_(asio::ssl::context::tlsv13) {
  SSL_CTX* native = context_.native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_3_VERSION);
  SSL_CTX_set_ciphersuites(native, "TLS_AES_128_GCM_SHA256");
  SSL_CTX_set_num_tickets(native, 0);
  SSL_CTX_set_session_cache_mode(native, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_ex_data(native, owner_index(), this);
  SSL_CTX_set_psk_find_session_callback(native, &LaneTls::find_session);
  SSL_CTX_set_psk_use_session_callback(native, &LaneTls::use_session);
}

void LaneTls::offer(SSL* ssl, std::uint64_t lane) { remember(ssl, lane); }

bool LaneTls::is_mutual(SSL* ssl) { return SSL_session_reused(ssl) == 1; }

std::uint64_t LaneTls::lane_of(SSL* ssl) {
  const auto* name = static_cast<LaneName*>(SSL_get_ex_data(ssl, lane_index()));
  return name == nullptr ? 0 : name->lane;
}

int LaneTls::find_session(SSL* ssl, const unsigned char* identity, std::size_t length,
                          SSL_SESSION** session) {
  *session = nullptr;
  std::uint64_t lane = 0;
  if (length != sizeof lane) return 1;
  std::memcpy(&lane, identity, sizeof lane);
  const auto token = owner(ssl)->find_(lane);
  if (!token) return 1;
  *session = make_session(ssl, *token);
  remember(ssl, lane);
  owner(ssl)->named_(ssl);
  return 1;
}

int LaneTls::use_session(SSL* ssl, const EVP_MD*, const unsigned char** identity,
                         std::size_t* length, SSL_SESSION** session) {
  *session = nullptr;
  *identity = nullptr;
  *length = 0;
  const auto* name = static_cast<LaneName*>(SSL_get_ex_data(ssl, lane_index()));
  const auto token = name == nullptr ? std::nullopt : owner(ssl)->find_(name->lane);
  if (!token) return 0;
  *session = make_session(ssl, *token);
  *identity = reinterpret_cast<const unsigned char*>(&name->lane);
  *length = sizeof name->lane;
  return *session != nullptr;
}

}  // namespace gv
