// Small files that are read and written in one piece, mainly secrets that only their owner may
// read.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/problems.hpp"

namespace gv {

/// Text that may hold a secret, wiped on destruction.
struct SecretText {
  std::string text;

  SecretText() = default;
  SecretText(const SecretText&) = delete;
  SecretText& operator=(const SecretText&) = delete;
  ~SecretText();
};

/// A file descriptor, closed on destruction.
class File {
 public:
  File(const std::filesystem::path& path, int flags, mode_t mode = 0);
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  bool is_open() const { return fd_ >= 0; }
  int fd() const { return fd_; }

  /// Returns false with errno set if a write fails.
  bool write(std::string_view text) const;

  /// Reads up to `text.size()` bytes, and shrinks `text` to the number of bytes read. The caller
  /// allocates once, so no copy of a secret stays behind in reallocated memory.
  bool read(std::string& text) const;

 private:
  int fd_;
};

/// The system's text for a value of errno.
std::string error_text(int error);

/// The longest file with a secret. Reserve this many bytes for its text before you fill it, because
/// a text that grows leaves the secret behind in freed memory.
inline constexpr std::size_t secret_file_bytes_max = 4096;

/// Words that describe the file's content in error messages.
struct SecretFileWords {
  std::string_view what;     ///< For example "key pair".
  std::string_view command;  ///< The command that makes such a file.
};

/// Creates `file` with mode 0600; refuses if it exists.
Problems write_secret_file(const std::filesystem::path& file, const SecretText& content,
                           const SecretFileWords& words);

/// Reads a regular file that we own and whose mode is 0600 or stricter; refuses any other file. If
/// there are no problems, `content` holds the file's content.
Problems read_secret_file(const std::filesystem::path& file, const SecretFileWords& words,
                          SecretText& content);

}  // namespace gv
