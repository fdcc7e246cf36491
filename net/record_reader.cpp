// Decides where the next bytes of a lane go.
#include "net/record_reader.hpp"

#include <algorithm>
#include <cstring>

#include "base/check.hpp"
#include "consensus/message/effects.hpp"
#include "net/wire.hpp"

namespace gv {
namespace {

/// Bytes to read while no header is known. They may contain a few small records, or the beginning
/// of a long one, which is then copied to its final memory. The copy takes no longer than another
/// read.
constexpr std::size_t look_ahead = 8 * 1024;
constexpr std::size_t buffer_bytes = sizeof(RecordHeader) + block_bytes_max + look_ahead;

/// Returns the length of the content after this header, in bytes.
std::size_t bytes_after(const RecordHeader& header) {
  switch (header.kind) {
    case RecordKind::block:
    case RecordKind::message:
      return header.length;
    case RecordKind::lent_block:
      return sizeof(LentPlace);
    default:
      return 0;
  }
}

bool is_sound(const RecordHeader& header) {
  const std::size_t longest =
      header.kind == RecordKind::message ? frame_bytes_max : block_bytes_max;
  return header.version == RecordHeader{}.version && header.kind >= RecordKind::block &&
         header.kind <= RecordKind::over && header.transfer <= last_value(header.transfer) &&
         header.length > 0 && header.length <= longest;
}

}  // namespace

std::optional<RecordHeader> RecordReader::header() const {
  if (end_ - begin_ < sizeof(RecordHeader)) return std::nullopt;
  RecordHeader header;
  std::memcpy(&header, buffer_.data() + begin_, sizeof header);
  return header;
}

/// Moves unread bytes to the front, so that the longest record fits and the same few pages are
/// reused.
void RecordReader::tidy() {
  if (buffer_.empty()) buffer_.resize(buffer_bytes);
  if (begin_ == 0) return;
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
}

/// Moves a block that is only partly in the buffer to its final place, if there is one.
void RecordReader::begin_placed(const Place& place) {
  const std::optional<RecordHeader> known = header();
  if (!known || known->kind != RecordKind::block) return;
  const std::span<std::byte> wanted = place(*known);
  if (wanted.size() != known->length) return;
  const std::size_t came = end_ - begin_ - sizeof(RecordHeader);
  check(came < known->length, "whole records were taken");
  std::memcpy(wanted.data(), buffer_.data() + begin_ + sizeof(RecordHeader), came);
  begin_ = end_ = 0;
  placed_ = {*known, wanted, came};
}

std::array<std::span<std::byte>, 2> RecordReader::room(const Place& place) {
  tidy();
  if (!placed_) {
    begin_placed(place);
  } else if (place(placed_->header).data() != placed_->place.data()) {
    placed_->place = {};
  }
  const std::span<std::byte> buffer(buffer_);
  if (!placed_) {
    const std::optional<RecordHeader> known = header();
    const std::size_t missing =
        known ? sizeof(RecordHeader) + bytes_after(*known) - (end_ - begin_) : 0;
    return {buffer.subspan(end_, missing + look_ahead), {}};
  }
  const std::size_t missing = placed_->header.length - placed_->came;
  if (placed_->place.empty()) return {buffer.first(missing), {}};
  return {placed_->place.subspan(placed_->came), buffer.first(look_ahead)};
}

std::span<std::byte> RecordReader::own_room() {
  tidy();
  return std::span(buffer_).subspan(end_);
}

void RecordReader::came(std::size_t bytes) {
  if (!placed_) {
    end_ += bytes;
    return;
  }
  const std::size_t of_it = std::min<std::size_t>(bytes, placed_->header.length - placed_->came);
  placed_->came += of_it;
  end_ += bytes - of_it;
}

std::optional<Record> RecordReader::next() {
  if (placed_) {
    if (placed_->came < placed_->header.length) return std::nullopt;
    const Placed whole = *placed_;
    placed_.reset();
    if (!whole.place.empty()) return Record{whole.header, whole.place};
  }
  const std::optional<RecordHeader> known = header();
  if (!known) return std::nullopt;
  if (!is_sound(*known)) malformed_ = true;
  const std::size_t length = sizeof(RecordHeader) + bytes_after(*known);
  if (malformed_ || end_ - begin_ < length) return std::nullopt;
  const auto bytes = std::span<const std::byte>(buffer_).subspan(begin_, length);
  begin_ += length;
  return Record{*known, bytes.subspan(sizeof(RecordHeader))};
}

}  // namespace gv
