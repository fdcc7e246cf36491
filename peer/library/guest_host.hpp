// Runs a host inside another program, on its own thread.
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

/// Runs a peer with the program's learner, and keeps the messages that the host prints for people.
class GuestHost {
 public:
  GuestHost(HostOptions options, std::unique_ptr<Learner> learner);
  GuestHost(const GuestHost&) = delete;
  GuestHost& operator=(const GuestHost&) = delete;
  /// Waits until the host has ended. The program must already have left the run.
  ~GuestHost();

  /// Waits at most `patience` for the host to end. Returns true if it has ended.
  bool has_ended(Duration patience);
  /// The host's exit code, once it has ended.
  int exit_code() const;
  /// The last few messages that the host printed for people, in the order of printing.
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
