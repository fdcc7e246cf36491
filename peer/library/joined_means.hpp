// Runs a peer without a model inside another program: its host, and the calls that average arrays.
#pragma once

#include <cstdint>
#include <optional>
#include <set>

#include "base/time.hpp"
#include "peer/host/mean_calls.hpp"
#include "peer/library/guest_host.hpp"
#include "peer/library/user_tensors.hpp"

namespace gv {

/// Returns a copy of the config, changed so that the run has no model and never ends by itself.
Config without_model(Config config);

/// A peer without a model. All functions are called on the program's thread. An array belongs to
/// the program except while a call with that array is open.
class JoinedMeans {
 public:
  /// The config in `options` must come from without_model().
  explicit JoinedMeans(HostOptions options);
  JoinedMeans(const JoinedMeans&) = delete;
  JoinedMeans& operator=(const JoinedMeans&) = delete;
  /// Leaves, and waits until the host has ended.
  ~JoinedMeans();

  /// Opens a call and returns its number. If the array or the weight is unsuitable, throws
  /// std::invalid_argument and opens no call.
  std::uint64_t begin(UserTensors array, double weight);
  bool is_open(std::uint64_t call) const { return open_.contains(call); }
  /// Waits for the end of an open call. If `call` is 0, waits until the peer has joined. Closes the
  /// call if it ends within `patience`. If the peer ends, also waits for the host to end, again for
  /// at most `patience`. Returns `is_over` only once the host has ended.
  MeanCalls::Waited wait(std::uint64_t call, Duration patience);
  /// The result of the most recently closed call.
  const Mean& mean() const { return mean_; }

  /// The number of the call that the program waits for; empty if it waits for none.
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
  GuestHost host_;  ///< Declared last, because the host uses the other fields until it has ended.
};

}  // namespace gv
