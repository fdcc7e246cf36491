// The target `pair_code`: a model from a partner, in a code that needs the pair's memory.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/check.hpp"
#include "consensus/gossip/pair_memories.hpp"
#include "tests/fuzz/target.hpp"

namespace gv::fuzz {
namespace {

constexpr PeerId partner{2};
constexpr std::size_t elements = 700;  // Larger than one bucket of a codec.
constexpr TransferId last_exchange{partner, 1, 1};

/// One of the codecs that need a memory.
Codec codec_of(std::byte choice) {
  switch (std::to_integer<int>(choice) % 3) {
    case 0:
      return Codec::qsgd8;
    case 1:
      return {.kind = CodecKind::top_k, .fraction = 0.05};
    default:
      return {.kind = CodecKind::top_k, .fraction = 1};
  }
}

std::vector<float> model_of(Rng rng) {
  std::vector<float> model(elements);
  for (float& value : model) value = static_cast<float>(rng.normal());
  return model;
}

/// The memories of a peer which, if `have_met`, has met the partner before.
PairMemories memories_of(bool have_met) {
  PairMemories memories;
  if (have_met) memories.keep(partner, last_exchange, model_of(Rng(1)));
  return memories;
}

bool have_met(std::byte choice) { return std::to_integer<int>(choice) >= 128; }

/// The first byte selects the codec and whether the pair has met. The rest is the code. If the code
/// begins with two bytes of 255, they are replaced by the key that both peers know, which no fuzzer
/// could guess.
void feed(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const Codec codec = codec_of(bytes[0]);
  const PairMemories memories = memories_of(have_met(bytes[0]));
  std::vector<std::byte> code(bytes.begin() + 1, bytes.end());
  constexpr std::byte known{255};
  if (code.size() >= PairMemories::key_bytes && code[0] == known && code[1] == known) {
    const std::uint64_t key = memories.key_of(partner);
    std::memcpy(code.data(), &key, PairMemories::key_bytes);
  }
  std::vector<float> model(elements);
  if (!memories.decode(codec, partner, code, model)) return;
  check(std::ranges::all_of(model, [](float value) { return std::isfinite(value); }),
        "a model that is taken is finite");
  check(PairMemories::key_in(code) == memories.key_of(partner), "both remember the same");
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> found;
  for (const int choice : {0, 1, 2, 128, 129, 130}) {
    const std::byte first{static_cast<std::uint8_t>(choice)};
    const std::vector<std::byte> code =
        memories_of(have_met(first)).encode(codec_of(first), partner, model_of(Rng(2)), Rng(3));
    Bytes seed(1 + code.size(), first);
    std::ranges::copy(code, seed.begin() + 1);
    if (have_met(first)) std::fill_n(seed.begin() + 1, 2, std::byte{255});
    found.push_back(std::move(seed));
  }
  return found;
}

}  // namespace

Target pair_code_target() {
  return {.name = "pair_code", .feed = feed, .seeds = seeds, .bytes_max = 8192};
}

}  // namespace gv::fuzz
