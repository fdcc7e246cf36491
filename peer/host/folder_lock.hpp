// Keeps two peers out of one run folder, where they would delete each other's checkpoints.
#pragma once

#include <filesystem>
#include <string>

namespace gv {

/// The only peer of a run folder holds this. The system releases it when the process ends, however
/// that happens. File systems that know no locks are taken as they are.
class FolderLock {
 public:
  /// Throws std::runtime_error when the lock's file cannot be written.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// Whether another process has the folder.
  bool is_taken() const { return is_taken_; }
  /// What that process has written about itself: its pid, or nothing yet.
  const std::string& holder() const { return holder_; }

 private:
  int file_;
  bool is_taken_ = false;
  std::string holder_;
};

}  // namespace gv
