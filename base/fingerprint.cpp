// Implements XXH64 for inputs of whole 4-byte words, as specified in github.com/Cyan4973/xxHash,
// doc/xxhash_spec.md.
#include "base/fingerprint.hpp"

#include <array>
#include <bit>
#include <cstddef>

#include "base/number_at.hpp"

namespace gv {
namespace {

constexpr std::uint64_t prime1 = 0x9e3779b185ebca87;
constexpr std::uint64_t prime2 = 0xc2b2ae3d27d4eb4f;
constexpr std::uint64_t prime3 = 0x165667b19e3779f9;
constexpr std::uint64_t prime4 = 0x85ebca77c2b2ae63;
constexpr std::uint64_t prime5 = 0x27d4eb2f165667c5;

std::uint64_t mixed(std::uint64_t lane, std::uint64_t word) {
  return std::rotl(lane + word * prime2, 31) * prime1;
}

/// XXH64 of `bytes`, whose length must be a multiple of four.
std::uint64_t hash_of(std::span<const std::byte> bytes) {
  constexpr std::size_t word = 4;
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size() / word;
  std::uint64_t hash = prime5;
  if (left >= 8) {
    // Four independent lanes, because in a single lane each multiplication would wait for the
    // previous one.
    std::array<std::uint64_t, 4> lanes = {prime1 + prime2, prime2, 0, 0 - prime1};
    for (; left >= 8; at += 8 * word, left -= 8) {
      for (std::size_t i = 0; i < 4; ++i) {
        lanes[i] = mixed(lanes[i], number_at<std::uint64_t>(at + 2 * word * i));
      }
    }
    hash = std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) + std::rotl(lanes[2], 12) +
           std::rotl(lanes[3], 18);
    for (const std::uint64_t lane : lanes) hash = (hash ^ mixed(0, lane)) * prime1 + prime4;
  }
  hash += bytes.size();
  for (; left >= 2; at += 2 * word, left -= 2) {
    hash = std::rotl(hash ^ mixed(0, number_at<std::uint64_t>(at)), 27) * prime1 + prime4;
  }
  if (left > 0) {
    hash = std::rotl(hash ^ (number_at<std::uint32_t>(at) * prime1), 23) * prime2 + prime3;
  }
  hash = (hash ^ (hash >> 33)) * prime2;
  hash = (hash ^ (hash >> 29)) * prime3;
  return hash ^ (hash >> 32);
}

}  // namespace

std::uint64_t fingerprint(std::span<const float> values) { return hash_of(std::as_bytes(values)); }

std::uint64_t fingerprint(std::span<const double> values) { return hash_of(std::as_bytes(values)); }

}  // namespace gv
