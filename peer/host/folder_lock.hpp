// Keeps two peers from using one run folder, where they would delete each other's checkpoints.
#pragma once

#include <filesystem>
#include <string>

namespace gv {

/// A lock held by the only peer of a run folder. The system releases it when the process ends for
/// any reason; after a crash, only once children made by fork() have ended too. On file systems
/// without locks, it has no effect.
class FolderLock {
 public:
  /// Throws std::runtime_error if the lock's file cannot be written.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// True if another process holds the lock.
  bool is_taken() const { return is_taken_; }
  /// The pid that the holder of the lock wrote, or an empty string.
  const std::string& holder() const { return holder_; }

 private:
  int file_;
  bool is_taken_ = false;
  std::string holder_;
};

}  // namespace gv
