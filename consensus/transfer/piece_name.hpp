// Names of the pieces of a sum: what a transfer's number says about the block that it is for.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gv {

/// Which piece of an all-reduce a block on a lane is: a transfer's number, taken apart.
struct PieceName {
  std::uint64_t operation = 0;
  std::size_t bucket = 0;
  std::size_t round = 0;
  std::size_t segment = 0;

  /// Numbers of operations are told apart modulo this, far more than can be under way.
  static constexpr std::uint64_t operations = std::uint64_t{1} << 24;
  static constexpr std::size_t buckets_max = 256;
  static constexpr std::size_t rounds_max = 4096;
  static constexpr std::size_t segments_max = 1 << 20;

  std::uint64_t number() const;
  static PieceName of(std::uint64_t number);
};

}  // namespace gv
