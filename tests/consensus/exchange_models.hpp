// Models and options for tests of laws that all exchanges obey.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/rng.hpp"
#include "consensus/gossip/pair_exchange.hpp"

namespace gv {

inline constexpr std::size_t width = 60;

inline PairExchange::Options plain() {
  return {.layout_hash = 7, .elements = width, .clip_factor = 0, .norm_cap = 0, .block_least = 1};
}

inline std::vector<float> model_of(std::uint64_t seed) {
  Rng rng(seed);
  std::vector<float> model(width);
  for (float& value : model) value = static_cast<float>(rng.normal());
  return model;
}

}  // namespace gv
