// Chooses the size of blocks.
#include "train/data/sample_blocks.hpp"

#include <algorithm>
#include <bit>

namespace gv {

std::size_t samples_of_block(std::size_t sample_bytes, std::size_t block_bytes) {
  return std::bit_floor(std::max<std::size_t>(1, block_bytes / sample_bytes));
}

}  // namespace gv
