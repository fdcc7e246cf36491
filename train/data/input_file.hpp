// A file that is read in pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/problems.hpp"

namespace gv {

/// An uncompressed regular file, open for reading. It is read with pread() and not mapped, because
/// the process would crash if it accessed a mapped file that has become shorter.
class InputFile {
 public:
  /// Opens the file. Returns null and adds a problem if it cannot be opened or is not a regular
  /// file.
  static std::shared_ptr<const InputFile> open(const std::string& path, Problems& problems);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  /// Size in bytes at the time of opening.
  std::uint64_t size() const { return size_; }

  /// Fills `out` with the bytes from `offset` on. Returns a problem if they cannot be read or the
  /// file ends too early; the bytes in `out` are then unspecified. Several threads may call this at
  /// once.
  std::optional<Problem> read(std::uint64_t offset, std::span<std::uint8_t> out) const;

 private:
  InputFile(std::string path, int descriptor);

  std::string path_;
  int descriptor_;
  std::uint64_t size_ = 0;
};

/// The lines of a part of a file, one after the other. Holds one line and one piece of the file in
/// memory.
class InputLines {
 public:
  /// Reads the part from `begin` up to `end`, which must not be beyond the end of the file. A line
  /// must begin at `begin`.
  InputLines(const InputFile& file, std::uint64_t begin, std::uint64_t end);

  /// Returns the next line without the character that ends it, valid until the next call. Leaves
  /// out a byte order mark at the start of the file, which would make the first sample look like
  /// headings. Returns nullopt after the last line, or if there is a problem.
  std::optional<std::string_view> next();
  /// Offset in the file of the line that next() last returned.
  std::uint64_t offset() const { return offset_; }
  /// Set if reading failed or if a line is too long.
  const std::optional<Problem>& problem() const { return problem_; }

 private:
  bool read_more();

  const InputFile& file_;
  std::uint64_t position_;  ///< The next byte to read from the file.
  std::uint64_t end_;
  std::uint64_t offset_;
  std::string bytes_;      ///< The newest bytes read from the file.
  std::size_t taken_ = 0;  ///< Bytes at the start of `bytes_` that next() has already returned.
  std::optional<Problem> problem_;
};

}  // namespace gv
