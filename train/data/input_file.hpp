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

/// An uncompressed regular file, open for reading. It is read with pread and not mapped, because
/// access to a mapped file that has become shorter would end the process.
class InputFile {
 public:
  /// Null if the file cannot be opened or is of another kind; then a problem is added.
  static std::shared_ptr<const InputFile> open(const std::string& path, Problems& problems);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  /// Size in bytes at the time of opening.
  std::uint64_t size() const { return size_; }

  /// Fills `out` with the bytes from `offset` on. Returns a problem if they cannot be read or if
  /// the file ends before; then the bytes in `out` are unspecified. May be called on several
  /// threads at once.
  std::optional<Problem> read(std::uint64_t offset, std::span<std::uint8_t> out) const;

 private:
  InputFile(std::string path, int descriptor);

  std::string path_;
  int descriptor_;
  std::uint64_t size_ = 0;
};

/// The lines of a part of a file, one after the other. Memory: one line and a piece of the file.
class InputLines {
 public:
  /// The part from `begin` to `end`, which is inside the file or equals its size. A line begins at
  /// `begin`.
  InputLines(const InputFile& file, std::uint64_t begin, std::uint64_t end);

  /// The next line without the character that ends it, valid until the next call. A byte order mark
  /// at the start of the file is left out, because it would make a first sample look like headings.
  /// nullopt after the last line, or if there is a problem.
  std::optional<std::string_view> next();
  /// The offset in the file at which the line of the last next() begins.
  std::uint64_t offset() const { return offset_; }
  /// Set if reading failed or if a line is too long.
  const std::optional<Problem>& problem() const { return problem_; }

 private:
  bool read_more();

  const InputFile& file_;
  std::uint64_t position_;  ///< The next byte to read from the file.
  std::uint64_t end_;
  std::uint64_t offset_;
  std::string bytes_;      ///< Bytes that have been read.
  std::size_t taken_ = 0;  ///< The number of these bytes in lines that next() has returned.
  std::optional<Problem> problem_;
};

}  // namespace gv
