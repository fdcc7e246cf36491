// A host inside another program, on a thread of its own.
#pragma once

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/time.hpp"
#include "peer/host/host.hpp"

namespace gv {

/// Runs a peer with the program's learner, and keeps its messages for people.
class GuestHost {
 public:
  GuestHost(HostOptions options, std::unique_ptr<Learner> learner);
  GuestHost(const GuestHost&) = delete;
  GuestHost& operator=(const GuestHost&) = delete;
  /// Waits until the host has ended. The learner's other side must have left before.
  ~GuestHost();

  /// True once the host has ended. Waits at most `patience` for that.
  bool has_ended(Duration patience);
  /// The host's exit code, once it has ended.
  int exit_code() const;
  /// The host's messages for people, the newest last.
  std::string said() const;
  const std::filesystem::path& folder() const { return folder_; }

 private:
  void run(const HostOptions& options, std::unique_ptr<Learner> learner);

  std::filesystem::path folder_;
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  bool has_ended_ = false;
  int exit_code_ = 0;
  std::deque<std::string> said_;
  std::thread thread_;
};

}  // namespace gv
