// The token of a pair of peers, with libsodium.
#include "net/pair_token.hpp"

#include <sodium.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace gv {

std::optional<LaneToken> pair_token(
    const KeyPair& own, const PublicKey& other, std::uint64_t stream,
    const std::vector<std::pair<std::string, std::string>>& agreement) {
  const auto theirs = curve_key(other);
  CurveKeyPair mine = curve_keys(own);
  std::array<std::uint8_t, crypto_scalarmult_BYTES> shared{};
  const bool is_sound =
      theirs && crypto_scalarmult(shared.data(), mine.secret_key.data(), theirs->data()) == 0;
  sodium_memzero(mine.secret_key.data(), mine.secret_key.size());
  if (!is_sound) return std::nullopt;

  LaneToken token{};
  crypto_generichash_state state;
  crypto_generichash_init(&state, shared.data(), shared.size(), token.size());
  sodium_memzero(shared.data(), shared.size());
  const auto add = [&](std::string_view text) {
    const std::uint64_t length = text.size();
    crypto_generichash_update(&state, reinterpret_cast<const std::uint8_t*>(&length),
                              sizeof length);
    crypto_generichash_update(&state, reinterpret_cast<const std::uint8_t*>(text.data()),
                              text.size());
  };
  add("grapevine relayed lane 1");
  for (const PublicKey& key : {std::min(own.public_key, other), std::max(own.public_key, other)}) {
    crypto_generichash_update(&state, key.data(), key.size());
  }
  crypto_generichash_update(&state, reinterpret_cast<const std::uint8_t*>(&stream), sizeof stream);
  for (const auto& [field, value] : agreement) {
    add(field);
    add(value);
  }
  crypto_generichash_final(&state, token.data(), token.size());
  return token;
}

}  // namespace gv
