// Turns a program's calls for means of arrays into a learner without a model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "base/time.hpp"
#include "train/learner/learner.hpp"

namespace gv {

/// An array in a program's memory. The worker calls the array's functions between give() and the
/// end of the call.
struct UserArray {
  std::size_t floats = 0;
  std::function<void(std::span<float> to)> read;
  std::function<void(std::span<const float> from)> write;
};

/// The result of a call.
struct Mean {
  /// The call's number, the same on all peers; for a missed call, the number of the other peers'
  /// last call.
  std::uint64_t number = 0;
  /// Number of peers in the mean; 0 if all weights are 0, in which case the array is unchanged.
  std::size_t peers = 0;
  /// True if the other peers have gone on without this one. The array is then unchanged.
  bool is_missed = false;
};

/// The calls of one peer. The n-th call of one peer is averaged with the n-th calls of the others,
/// and a newcomer's first call with their next one. The program's thread calls the functions of
/// this class. The other side, which learner() returns, goes to a host, whose worker owns it.
/// Several calls may be under way. They end in order.
class MeanCalls {
 public:
  MeanCalls();
  MeanCalls(const MeanCalls&) = delete;
  MeanCalls& operator=(const MeanCalls&) = delete;
  /// Calls leave().
  ~MeanCalls();

  /// Returns the side that a host needs. May be called once.
  std::unique_ptr<Learner> learner();

  /// Begins a call and returns its number, which is 1 for this program's first call. The sum of the
  /// weighted values over all peers must be finite. `weight` must not be negative.
  std::uint64_t give(UserArray array, float weight);

  enum class Waited { is_done, is_over, is_late };
  /// Waits until `call` and all earlier calls have ended; if `call` is 0, until this peer works
  /// together with the others. `is_over` means that this will not happen, because the peer has
  /// ended.
  Waited wait(std::uint64_t call, Duration patience);
  /// Takes the result of a finished call. Take each result only once.
  Mean take(std::uint64_t call);

  /// The number of the newest call, or 0.
  std::uint64_t newest() const;
  /// The number of calls that all peers have made together, as far as this peer knows.
  std::uint64_t common_calls() const;

  /// Ends the program's calls. The host then tells the other peers that this peer is leaving, and
  /// ends.
  void leave();

 private:
  struct Meeting;
  class Face;

  std::shared_ptr<Meeting> meeting_;
};

}  // namespace gv
