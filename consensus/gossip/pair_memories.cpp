// Encodes and decodes models as differences from a pair's memory.
#include "consensus/gossip/pair_memories.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "base/magnitude.hpp"

namespace gv {

std::uint64_t PairMemories::key_of(PeerId partner) const {
  const auto found = memories_.find(partner);
  return found == memories_.end() ? 0 : found->second.key;
}

std::uint64_t PairMemories::code_bytes(const Codec& codec, std::uint64_t key,
                                       std::size_t elements) {
  return key_bytes + encoded_size(key == 0 ? Codec::identity : codec, elements);
}

std::uint64_t PairMemories::key_in(std::span<const std::byte> code) {
  std::uint64_t key = 0;
  std::memcpy(&key, code.data(), key_bytes);
  return key;
}

std::vector<std::byte> PairMemories::encode(const Codec& codec, PeerId partner,
                                            std::span<const float> model, Rng rng) const {
  const std::uint64_t key = key_of(partner);
  std::vector<std::byte> code(code_bytes(codec, key, model.size()));
  std::memcpy(code.data(), &key, key_bytes);
  const auto values = std::span(code).subspan(key_bytes);
  if (key == 0) {
    gv::encode(Codec::identity, model, rng, values);
    return code;
  }
  std::vector<float> difference(model.size());
  std::ranges::transform(model, memories_.at(partner).values, difference.begin(), std::minus<>());
  gv::encode(codec, difference, rng, values);
  return code;
}

bool PairMemories::decode(const Codec& codec, PeerId partner, std::span<const std::byte> code,
                          std::span<float> model) const {
  const std::uint64_t key = key_of(partner);
  if (code.size() != code_bytes(codec, key, model.size()) || key_in(code) != key) return false;
  const auto values = code.subspan(key_bytes);
  if (key == 0) return gv::decode(Codec::identity, values, model);
  if (!gv::decode(codec, values, model)) return false;
  std::ranges::transform(model, memories_.at(partner).values, model.begin(), std::plus<>());
  return is_finite(model);
}

void PairMemories::keep(PeerId partner, const TransferId& exchange, std::vector<float> values) {
  std::uint64_t key = hash_combine(key_of(partner), static_cast<std::uint64_t>(exchange.owner));
  key = hash_combine(hash_combine(key, exchange.session), exchange.number);
  // The lowest bit is set because a key of 0 means no memory.
  memories_[partner] = {key | 1, ++exchanges_, std::move(values)};
  if (memories_.size() <= partners_max) return;
  const auto by_age = [](const auto& a, const auto& b) { return a.second.kept < b.second.kept; };
  memories_.erase(std::ranges::min_element(memories_, by_age));
}

}  // namespace gv
