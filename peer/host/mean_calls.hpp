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

/// An array in a program's memory. The worker calls its functions between give() and the end of the
/// call.
struct UserArray {
  std::size_t floats = 0;
  std::function<void(std::span<float> to)> read;
  std::function<void(std::span<const float> from)> write;
};

/// The result of a call.
struct Mean {
  std::uint64_t number = 0;  ///< Number of the call as all peers count; if missed, of the last.
  std::size_t peers = 0;  ///< Peers in the mean; 0: all weights are 0, and the array is unchanged.
  /// True if the other peers have gone on without this one. The array is then unchanged.
  bool is_missed = false;
};

/// One peer's calls. The n-th call of one peer meets the n-th of the others, and a newcomer's first
/// call meets their next one. The program's thread calls the functions of this class. Its other
/// side, learner(), goes to a host, whose worker owns it. Several calls may be under way; they end
/// in order.
class MeanCalls {
 public:
  MeanCalls();
  MeanCalls(const MeanCalls&) = delete;
  MeanCalls& operator=(const MeanCalls&) = delete;
  /// Calls leave().
  ~MeanCalls();

  /// The side for a host. May be called once.
  std::unique_ptr<Learner> learner();

  /// Begins a call and returns its number, which is 1 for this program's first call. Weighted
  /// values must be so small that their sum over all peers is finite. `weight` must be at least 0.
  std::uint64_t give(UserArray array, float weight);

  enum class Waited { is_done, is_over, is_late };
  /// Waits until that call, and all before it, have ended. 0: waits until the peer works together
  /// with the others. `is_over` means that this will not happen, because the peer has ended.
  Waited wait(std::uint64_t call, Duration patience);
  /// Takes the result of a finished call. Call it once for each.
  Mean take(std::uint64_t call);

  /// The number of the newest call, or 0.
  std::uint64_t newest() const;
  /// The number of calls that all peers have made together, as far as this one knows.
  std::uint64_t common_calls() const;

  /// Ends the program's part: the host tells the others and ends.
  void leave();

 private:
  struct Meeting;
  class Face;

  std::shared_ptr<Meeting> meeting_;
};

}  // namespace gv
