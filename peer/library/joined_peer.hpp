// A peer inside another program: its host, and the loop that trains.
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

/// One peer and its host. The program's thread calls all functions, and owns the tensors except
/// while a call is pending.
class JoinedPeer {
 public:
  /// `model` is shared between peers; `state` is the rest of a checkpoint.
  JoinedPeer(HostOptions options, UserTensors model, UserTensors state, TensorCopies copies,
             std::size_t samples);
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
  /// True once one of the TensorCopies has failed. The program's model then differs from the
  /// peer's.
  bool has_failed_to_copy() const { return has_failed_to_copy_; }

  /// Begin these calls, which wait() continues. Each throws std::logic_error if UserLoop's function
  /// does, or while a gradient in parts is incomplete.
  void step(const Score& score);
  void reduce(UserTensors gradient, const Score& score);
  /// Hands over tensors of a gradient in parts, and does not wait. Throws as GivenGradient does.
  void reduce_begin(const UserTensors& part);
  /// Begins the call that ends a gradient in parts.
  void reduce_end(const Score& score);
  /// Waits for the pending call, for `patience` at most.
  UserLoop::Waited wait(Duration patience);
  const Reduced& reduced() const { return reduced_; }

  /// Begins to leave; the host's end follows.
  void leave();

  /// Writes the indices of the peer's samples from a position on, in a data set of `samples`.
  /// Throws std::invalid_argument if the run's settings do not determine them. Returns the number
  /// of the peer's samples in an epoch.
  std::uint64_t find_indices(std::uint64_t samples, std::uint64_t position,
                             std::span<std::uint64_t> indices);
  std::uint64_t batch() const { return batch_; }
  /// The position of the next step's samples: with leased data dealt by the swarm, otherwise set by
  /// the loop.
  std::uint64_t position() const;
  /// The rule by which samples are dealt to peers.
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
  GivenGradient given_;  ///< Parts of the next gradient.
  UserLoop loop_;
  Call pending_ = Call::begin;
  bool is_over_ = false;
  bool has_left_ = false;
  Reduced reduced_;
  std::uint64_t steps_ = 0;
  std::optional<IndexRule> index_rule_;  ///< Empty if it depends on the content of samples.
  std::uint64_t batch_;
  std::optional<IndexOrder> order_;
  bool has_asked_ = false;  ///< True if the program has asked for indices of the step under way.
  GuestHost host_;          ///< Last member: it uses the others until it has ended.
};

}  // namespace gv
