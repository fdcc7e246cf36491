// A peer inside another program: its host, and the program's training loop.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/time.hpp"
#include "peer/host/user_loop.hpp"
#include "peer/library/given_gradient.hpp"
#include "peer/library/guest_host.hpp"
#include "peer/library/tensor_copies.hpp"
#include "peer/library/user_tensors.hpp"
#include "train/data/index_order.hpp"

namespace gv {

/// One peer and its host. All functions are called on the program's thread. The program owns the
/// tensors except while a call is pending.
class JoinedPeer {
 public:
  /// The swarm shares `model`. Checkpoints contain both `model` and `state`.
  JoinedPeer(HostOptions options, UserTensors model, UserTensors state, TensorCopies copies,
             std::size_t samples);
  JoinedPeer(const JoinedPeer&) = delete;
  JoinedPeer& operator=(const JoinedPeer&) = delete;
  /// Leaves, and waits until the host has ended.
  ~JoinedPeer();

  /// The kind of the call that the program waits for.
  enum class Call { none, begin, step, reduce };
  Call pending() const { return pending_; }
  /// True once wait() has found that training is over.
  bool is_over() const { return is_over_; }
  bool has_left() const { return has_left_; }
  /// True once a copy by TensorCopies has failed. The program's model then differs from the peer's.
  bool has_failed_to_copy() const { return has_failed_to_copy_; }

  /// Each of these functions begins a call, which wait() continues. Each throws std::logic_error if
  /// the UserLoop function of the same name would, or while a gradient in parts is incomplete.
  void step(const Score& score);
  void reduce(UserTensors gradient, const Score& score);
  /// Hands over some tensors of a gradient that is given in parts. Does not wait. Throws the same
  /// exceptions as GivenGradient::add().
  void reduce_begin(const UserTensors& part);
  /// Begins the call that ends a gradient given in parts.
  void reduce_end(const Score& score);
  /// Waits for the end of the pending call, at most for `patience`.
  UserLoop::Waited wait(Duration patience);
  const Reduced& reduced() const { return reduced_; }

  /// Begins to leave. The host ends soon afterwards.
  void leave();

  /// Writes the indices of the peer's samples to `indices`, starting at `position`. The data set
  /// has `samples` samples. Returns the number of this peer's samples in an epoch. Throws
  /// std::invalid_argument if the run's settings do not determine the indices.
  std::uint64_t find_indices(std::uint64_t samples, std::uint64_t position,
                             std::span<std::uint64_t> indices);
  std::uint64_t batch() const { return batch_; }
  /// The position of the next step's samples. With leased data the swarm determines the position;
  /// otherwise the loop sets it.
  std::uint64_t position() const;
  /// The rule that assigns samples to peers.
  const std::optional<IndexRule>& index_rule() const { return index_rule_; }

  const UserTensors& model() const { return model_; }
  UserLoop& loop() { return loop_; }
  std::uint64_t steps() const { return steps_; }
  GuestHost& host() { return host_; }

 private:
  UserModel user_model();
  void copy_out(TensorCopies::Part part);
  void copy_in(TensorCopies::Part part);
  void check_no_parts() const;

  UserTensors model_;
  UserTensors state_;
  TensorCopies copies_;
  std::atomic<bool> has_failed_to_copy_ = false;
  UserTensors gradient_;
  GivenGradient given_;  ///< The parts of the next gradient that have been given so far.
  UserLoop loop_;
  Call pending_ = Call::begin;
  bool is_over_ = false;
  bool has_left_ = false;
  Reduced reduced_;
  std::uint64_t steps_ = 0;
  /// The rule that assigns samples to peers; empty if it depends on the content of the samples.
  std::optional<IndexRule> index_rule_;
  std::uint64_t batch_;
  std::optional<IndexOrder> order_;
  /// True if the program has asked for the indices of the present step's samples.
  bool has_asked_ = false;
  GuestHost host_;  ///< Declared last, because the host uses the other fields until it has ended.
};

}  // namespace gv
