// Reads and writes small files, and checks who can read those with secrets.
#include "net/small_file.hpp"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace gv {
namespace {

constexpr mode_t private_mode = 0600;

std::string make_one(const SecretFileWords& words) {
  return "make a " + std::string(words.what) + " with `" + std::string(words.command) + "`";
}

/// Explains why a file with a secret cannot be opened.
Problem unopened(const std::string& place, const SecretFileWords& words, int error) {
  if (error == ENOENT) return {place, "no such file", make_one(words)};
  if (error == ELOOP) {
    return {place,
            "is a symbolic link, which could be turned to another " + std::string(words.what),
            "name the file itself"};
  }
  return {place, "cannot be opened: " + error_text(error), "check its owner and mode"};
}

/// Checks whether other users could read or change a file with a secret. Looks only at the open
/// descriptor, because the name may point elsewhere a moment later.
Problems problems_with_owner(const File& in, const std::string& place,
                             const SecretFileWords& words) {
  struct stat status {};
  if (::fstat(in.fd(), &status) != 0) {
    return {{place, "cannot be examined: " + error_text(errno), ""}};
  }
  if (!S_ISREG(status.st_mode)) {
    return {{place, "is not a regular file", make_one(words)}};
  }
  Problems problems;
  if (status.st_uid != ::geteuid()) {
    problems.push_back({place, "belongs to another user, who can change it",
                        "run as that user, or make a " + std::string(words.what) +
                            " of your own with `" + std::string(words.command) + "`"});
  }
  if ((status.st_mode & 07777 & ~private_mode) != 0) {
    problems.push_back(
        {place, "may be read or changed by others than its owner", "chmod 600 " + place});
  }
  return problems;
}

}  // namespace

SecretText::~SecretText() { sodium_memzero(text.data(), text.size()); }

File::File(const std::filesystem::path& path, int flags, mode_t mode)
    : fd_(::open(path.c_str(), flags | O_CLOEXEC, mode)) {}

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

bool File::write(std::string_view text) const {
  while (!text.empty()) {
    const ssize_t n = ::write(fd_, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

bool File::read(std::string& text) const {
  std::size_t filled = 0;
  while (filled < text.size()) {
    const ssize_t n = ::read(fd_, text.data() + filled, text.size() - filled);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    if (n == 0) break;
    filled += static_cast<std::size_t>(n);
  }
  text.resize(filled);
  return true;
}

std::string error_text(int error) { return std::system_category().message(error); }

Problems write_secret_file(const std::filesystem::path& file, const SecretText& content,
                           const SecretFileWords& words) {
  const File out(file, O_WRONLY | O_CREAT | O_EXCL, private_mode);
  if (!out.is_open()) {
    const int error = errno;
    if (error == EEXIST) {
      return {{file.string(),
               "exists already, and a " + std::string(words.what) + " is never overwritten",
               "choose another name, or move the old file away first"}};
    }
    return {{file.string(), "cannot be created: " + error_text(error),
             "check that the directory exists and that you may write to it"}};
  }
  // The mode is set again because an unusual umask may have removed our own permissions.
  if (::fchmod(out.fd(), private_mode) != 0 || !out.write(content.text) || ::fsync(out.fd()) != 0) {
    const int error = errno;
    ::unlink(file.c_str());  // Half a secret is of no use and would block the next attempt.
    return {
        {file.string(), "cannot be written: " + error_text(error), "check the disk's free space"}};
  }
  // Makes the file's name survive a power cut too. Not every file system can do this, and the file
  // is valid even if this fails.
  const auto parent = file.parent_path();
  const File directory(parent.empty() ? "." : parent, O_RDONLY | O_DIRECTORY);
  if (directory.is_open()) ::fsync(directory.fd());
  return {};
}

Problems read_secret_file(const std::filesystem::path& file, const SecretFileWords& words,
                          SecretText& content) {
  const std::string place = file.string();
  // O_NONBLOCK keeps open() from hanging on a FIFO, and has no effect on regular files.
  const File in(file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!in.is_open()) return {unopened(place, words, errno)};
  Problems problems = problems_with_owner(in, place, words);
  if (!problems.empty()) return problems;
  content.text.resize(secret_file_bytes_max + 1);
  if (!in.read(content.text)) return {{place, "cannot be read: " + error_text(errno), ""}};
  if (content.text.size() > secret_file_bytes_max) {
    return {{place, "is too long to hold a " + std::string(words.what),
             "restore it from a copy, or " + make_one(words)}};
  }
  return {};
}

}  // namespace gv
