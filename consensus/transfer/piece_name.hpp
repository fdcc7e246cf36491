// Names the pieces of a collective by transfer numbers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gv {

/// The piece of an all-reduce that a block on a lane holds, as encoded in its transfer's number.
struct PieceName {
  std::uint64_t operation = 0;
  std::size_t bucket = 0;
  std::size_t round = 0;
  std::size_t segment = 0;

  /// Collectives are told apart modulo this number, which is far more than can be under way.
  static constexpr std::uint64_t operations = std::uint64_t{1} << 24;
  static constexpr std::size_t buckets_max = 256;
  static constexpr std::size_t rounds_max = 4096;
  static constexpr std::size_t segments_max = 1 << 20;

  std::uint64_t number() const;
  static PieceName of(std::uint64_t number);
};

}  // namespace gv
