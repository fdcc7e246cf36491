// Cuts the bytes of a lane into records as they arrive.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "net/lane_record.hpp"

namespace gv {

/// A complete record.
struct Record {
  RecordHeader header;
  std::span<const std::byte> bytes;  ///< The content after the header.
};

/// Keeps the beginning of the next record, or writes a block directly into its final place. The
/// caller reads bytes into room(), reports them with came(), and calls next() until there is no
/// record. Does no input or output.
class RecordReader {
 public:
  /// Returns the memory for an arriving block: as many bytes as its header announces, or none. The
  /// answer may change between calls.
  using Place = std::function<std::span<std::byte>(const RecordHeader&)>;

  /// Returns room for the next bytes: two parts to fill in this order, the second possibly empty.
  /// Calls `place` each time, so that the owner of a block's memory may withdraw it between calls;
  /// the block is then dropped. Invalidates results of next().
  std::array<std::span<std::byte>, 2> room(const Place& place);
  /// Returns room in the reader's own memory, for bytes that are written there later.
  std::span<std::byte> own_room();

  /// Call after `bytes` bytes have been read into the last room.
  void came(std::size_t bytes);

  /// Returns the next complete record; nullopt if the next record is incomplete or malformed.
  std::optional<Record> next();

  /// True if the bytes received cannot be a record.
  bool is_malformed() const { return malformed_; }
  /// True if a record has begun and is not complete yet.
  bool is_amid_record() const { return placed_ || begin_ != end_; }

 private:
  /// A block that is written directly into its final place.
  struct Placed {
    RecordHeader header;
    std::span<std::byte> place;  ///< Empty if the owner of the memory withdrew it.
    std::size_t came = 0;
  };

  std::optional<RecordHeader> header() const;
  void tidy();
  void begin_placed(const Place& place);

  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0;  ///< Start of the bytes that next() has not taken.
  std::size_t end_ = 0;    ///< End of the bytes that next() has not taken.
  std::optional<Placed> placed_;
  bool malformed_ = false;
};

}  // namespace gv
