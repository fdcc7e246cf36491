// A peer that is a part of another program: a host on a thread of its own, and the loop that
// trains.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>

#include "base/time.hpp"
#include "peer/host/host.hpp"
#include "peer/host/user_loop.hpp"
#include "peer/library/user_tensors.hpp"

namespace gv {

/// One peer and its host. The program's thread calls all functions, and owns the tensors except
/// while a call is pending.
class JoinedPeer {
 public:
  /// `model` is what peers share, `state` what else goes into checkpoints.
  JoinedPeer(HostOptions options, UserTensors model, UserTensors state, std::size_t samples);
  JoinedPeer(const JoinedPeer&) = delete;
  JoinedPeer& operator=(const JoinedPeer&) = delete;
  /// Leaves, and waits until the host has ended.
  ~JoinedPeer();

  /// The call that the program waits for.
  enum class Call { none, begin, step, reduce };
  Call pending() const { return pending_; }
  /// True once a wait has found that training is over.
  bool is_over() const { return is_over_; }
  bool has_left() const { return has_left_; }

  /// Begin these calls; wait() then goes on with them. Each throws std::logic_error where
  /// UserLoop's does.
  void step(const Score& score);
  void reduce(UserTensors gradient, const Score& score);
  /// Waits for the pending call, for `patience` at most.
  UserLoop::Waited wait(Duration patience);
  const Reduced& reduced() const { return reduced_; }

  /// Begins to leave; has_ended() follows.
  void leave();
  /// True once the host has ended. Waits for that for `patience` at most.
  bool has_ended(Duration patience);
  /// The host's exit code, once it has ended.
  int exit_code() const;
  /// What the host has said that a person should read, newest last.
  std::string said() const;

  const UserTensors& model() const { return model_; }
  UserLoop& loop() { return loop_; }
  std::uint64_t steps() const { return steps_; }
  const std::filesystem::path& folder() const { return folder_; }

 private:
  void run(HostOptions options);

  UserTensors model_;
  UserTensors state_;
  UserTensors gradient_;
  std::filesystem::path folder_;
  UserLoop loop_;
  Call pending_ = Call::begin;
  bool is_over_ = false;
  bool has_left_ = false;
  Reduced reduced_;
  std::uint64_t steps_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  bool has_ended_ = false;
  int exit_code_ = 0;
  std::deque<std::string> said_;
  std::thread host_;
};

}  // namespace gv
