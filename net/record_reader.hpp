// Records taken out of the bytes of a lane, as these come.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "net/lane_record.hpp"

namespace gv {

/// A record that is whole.
struct Record {
  RecordHeader header;
  std::span<const std::byte> bytes;  ///< What follows the header.
};

/// Keeps what has come of the next record, or puts it where its reader wants to have it. Bytes go
/// where room() says, came() tells how many, and next() gives the records, until there is none.
/// Pure.
class RecordReader {
 public:
  /// Where the bytes of a block shall lie that comes: as many as its header says, or none. May
  /// answer otherwise when it is asked again.
  using Place = std::function<std::span<std::byte>(const RecordHeader&)>;

  /// Room for what comes, one behind the other; the second may be empty. It is asked of `place`
  /// again each time, so whoever owns that memory may take it back between; what comes of that
  /// block is then of no use to anybody and left out. Invalidates what next() gave.
  std::array<std::span<std::byte>, 2> room(const Place& place);
  /// The same for who lets others write there at a time of their own: in the reader's own memory.
  std::span<std::byte> own_room();

  /// So many bytes came into the room that was given last.
  void came(std::size_t bytes);

  /// The next record that is whole; none if there is none yet, or there never will be.
  std::optional<Record> next();

  /// What came can be no record.
  bool is_malformed() const { return malformed_; }
  /// A record has begun and is not whole.
  bool is_amid_record() const { return placed_ || begin_ != end_; }

 private:
  /// A block that lies elsewhere.
  struct Placed {
    RecordHeader header;
    std::span<std::byte> place;  ///< Empty: it was taken back.
    std::size_t came = 0;
  };

  std::optional<RecordHeader> header() const;
  void tidy();
  void begin_placed(const Place& place);

  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0;  ///< What came and was not taken lies in the buffer from here
  std::size_t end_ = 0;    ///< to here.
  std::optional<Placed> placed_;
  bool malformed_ = false;
};

}  // namespace gv
