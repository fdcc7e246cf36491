// Bit fields of a transfer's number.
#include "consensus/transfer/piece_name.hpp"

namespace gv {

std::uint64_t PieceName::number() const {
  return operation % operations << 40 | static_cast<std::uint64_t>(bucket) << 32 |
         static_cast<std::uint64_t>(round) << 20 | static_cast<std::uint64_t>(segment);
}

PieceName PieceName::of(std::uint64_t number) {
  return {.operation = number >> 40,
          .bucket = static_cast<std::size_t>(number >> 32) % buckets_max,
          .round = static_cast<std::size_t>(number >> 20) % rounds_max,
          .segment = static_cast<std::size_t>(number) % segments_max};
}

}  // namespace gv
