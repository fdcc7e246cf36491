// The records on a bulk lane, each a header and its content.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "consensus/message/effects.hpp"

namespace gv {

/// The kinds of records. The comments describe the content after the header.
enum class RecordKind : std::uint16_t {
  block = 1,       ///< The block's bytes.
  message = 2,     ///< A control frame; the header's later fields are 0.
  ring_block = 3,  ///< No content: the block lies in the next slot of the sender's ring.
  ring_done = 4,   ///< No content: `length` slots of the receiver's ring were read.
  lent_block = 5,  ///< The block's place in the sender's shared buffer, in 8 bytes.
  lent_done = 6,   ///< No content: `length` blocks of the receiver's shared buffer were read.
  /// No content. This is the last record: the sender closes after its last read of shared memory.
  over = 7,
};

/// Precedes the content of every record on a lane.
struct RecordHeader {
  std::uint32_t length = 0;
  std::uint16_t version = 2;
  RecordKind kind = RecordKind::block;
  std::uint64_t owner = 0;
  std::uint64_t session = 0;
  std::uint64_t number = 0;
  std::uint64_t offset = 0;
  std::uint32_t stage = 0;
  TransferKind transfer = TransferKind::exchange;
  std::array<std::uint8_t, 3> zeros = {};  ///< Padding, so that every byte is defined.
};
static_assert(sizeof(RecordHeader) == 48);
static_assert(sizeof(RecordHeader) + block_bytes_usual <= 4 * 65'464);

/// The place of a block in a shared buffer; follows its header.
using LentPlace = std::uint64_t;

}  // namespace gv
