// A peer without a model inside another program: its host, and the program's calls for means.
#pragma once

#include <cstdint>
#include <optional>
#include <set>

#include "base/time.hpp"
#include "peer/host/mean_calls.hpp"
#include "peer/library/guest_host.hpp"
#include "peer/library/user_tensors.hpp"

namespace gv {

/// The settings of a run without a model and without an end, whatever the config says about these.
Config without_model(Config config);

/// The program's thread calls all functions. An array belongs to the program except while a call
/// with it is open.
class JoinedMeans {
 public:
  /// The config in the options must be one returned by without_model().
  explicit JoinedMeans(HostOptions options);
  JoinedMeans(const JoinedMeans&) = delete;
  JoinedMeans& operator=(const JoinedMeans&) = delete;
  /// Leaves, and waits until the host has ended.
  ~JoinedMeans();

  /// Opens a call and returns its number. If the array or its weight is unsuitable, throws
  /// std::invalid_argument and opens no call.
  std::uint64_t begin(UserTensors array, double weight);
  bool is_open(std::uint64_t call) const { return open_.contains(call); }
  /// Waits for the end of an open call, or with 0 for the end of joining. Closes the call unless
  /// the wait was too short.
  MeanCalls::Waited wait(std::uint64_t call, Duration patience);
  /// The result of the call that was closed last.
  const Mean& mean() const { return mean_; }

  /// The call that a pending function of the program waits for; empty if none is pending.
  std::optional<std::uint64_t> pending() const { return pending_; }
  void set_pending(std::optional<std::uint64_t> call) { pending_ = call; }

  void leave();
  bool has_left() const { return has_left_; }
  std::uint64_t common_calls() const { return calls_.common_calls(); }
  GuestHost& host() { return host_; }

 private:
  MeanCalls calls_;
  std::set<std::uint64_t> open_;
  std::optional<std::uint64_t> pending_ = 0;
  Mean mean_;
  bool has_left_ = false;
  GuestHost host_;  ///< Last member: it uses the others until it has ended.
};

}  // namespace gv
