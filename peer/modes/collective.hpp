// Makes one collective after another: sums over the peers of a generation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "consensus/allreduce/all_reduce.hpp"
#include "consensus/generation/agreement.hpp"
#include "consensus/message/effects.hpp"
#include "peer/modes/allreduce_options.hpp"
#include "peer/modes/early_blocks.hpp"
#include "peer/modes/vector_pool.hpp"
#include "peer/node/job.hpp"

namespace gv {

/// Makes the sums of a generation, one at a time. Keeps our own gradient (or the change by our
/// local steps) until its sum is finished, even if the sum has to restart. Also keeps blocks that
/// arrive from other peers before we are ready for them.
///
/// If arrays are averaged, a collective cannot begin until the length of our array is known. Until
/// then, pieces from other peers are kept. Pure.
class Collective {
 public:
  using Vector = VectorPool::Vector;

  /// `elements` is the number of floats in a gradient.
  Collective(PeerId self, std::size_t elements, const AllReduceOptions& options);

  /// Starts the collectives of a generation. The generation's order determines our rank.
  void enter(const Generation& generation);
  /// Gives up the sum under way. Keeps only early blocks of the generation whose key is `next_key`.
  void leave(std::uint64_t next_key);

  /// Begins the collective of `steps` steps, which is named after its first step. The batch is
  /// `growth` times the first batch. Requests a gradient if none has been computed for this
  /// collective.
  void begin(std::uint64_t step, std::uint64_t steps, std::uint64_t growth, Effects& out);
  /// While `quiet`, none of our values enters a sum.
  void set_quiet(bool quiet, Effects& out);
  bool is_quiet() const { return quiet_; }
  /// Returns the gradient that job number `job` has to compute; empty if none is requested. Returns
  /// each request once.
  std::optional<task::ComputeGradient> order(std::uint64_t job);
  /// Call when a job's gradient is final from element `begin` to its end.
  void ready(std::uint64_t job, std::size_t begin, Effects& out);
  /// Call when the program has passed an array of `length` floats, for which the job waited.
  /// Returns true if the array belongs to the collective under way or to the next one.
  bool receive_array(std::uint64_t job, std::size_t length, Effects& out);
  /// The number of floats in our array; 0 until the program passes it.
  std::size_t array() const { return gradient_.valid ? gradient_.array : 0; }
  /// True if a peer has sent a piece of an array with a different length.
  bool has_unlike_arrays() const { return has_unlike_; }
  /// Drops our gradient because the replica was replaced.
  void forget_gradient() { gradient_.valid = false; }

  /// Returns the memory for a piece of the sum under way (see AllReduce::place).
  std::span<std::byte> place(PeerId from, const TransferId& id, std::uint64_t offset,
                             std::size_t bytes);
  /// Takes a block. Returns true if the block was a piece of the sum under way.
  bool receive(PeerId from, const Block& block, Effects& out);
  /// Keeps a piece of a later collective until that collective begins, if there is room for it.
  void keep(PeerId from, const Block& block) { held_.keep(from, block); }

  /// True if the collective under way contains none of our values.
  bool is_untouched() const;
  bool is_done() const { return reduce_ && reduce_->done(); }
  /// The peer, if any, that sent values which are not finite or are too large. With such values the
  /// collective cannot be finished.
  std::optional<PeerId> unsound_from() const {
    return reduce_ ? reduce_->unsound_from() : std::nullopt;
  }
  /// Ends the finished collective. Returns the weighted sum, or null if the contribution checksum
  /// shows that a peer is missing or counted twice. In that case the collective may restart.
  Vector finish();

  /// True if all our values are in the sum and we are waiting for other peers.
  bool is_waiting() const;
  bool involves(PeerId peer) const { return reduce_ && reduce_->involves(peer); }
  /// A counter that grows while the collective makes progress.
  std::uint64_t progress() const { return reduce_ ? reduce_->progress() : 0; }

  /// The peers of the newest generation by rank, our own rank, and the algorithm of the sums.
  const std::vector<PeerId>& order() const { return shape_.order; }
  std::size_t rank() const { return sum_.rank; }
  ReduceAlgorithm algorithm() const { return shape_.algorithm; }
  /// The number of steps in the newest collective. samples() counts the samples of all peers in
  /// these steps.
  std::uint64_t steps() const { return steps_; }
  std::uint64_t samples() const { return steps_ * samples_of_step(); }
  /// Samples of all peers in one step of the newest collective. share() is our part of these
  /// samples.
  std::uint64_t samples_of_step() const { return growth_ * samples_; }
  /// Samples of all peers in one step before the batch grows.
  std::uint64_t samples_before_growth() const { return samples_; }
  std::uint64_t share() const { return growth_ * share_; }
  /// With leased data, the index of our first sample, counted from the collective's first sample.
  std::uint64_t first_sample() const { return steps_ * growth_ * before_; }
  /// True if the collective sums the changes by local steps instead of gradients.
  bool is_local() const { return sum_.local; }
  /// How the values of the newest collective are encoded.
  const CompressionPlan& plan() const { return plan_; }
  /// Bytes sent in all finished collectives and in those given up.
  std::uint64_t bytes_sent() const { return bytes_sent_; }

 private:
  /// The gradient (or the change by local steps) for the next collective. It may be incomplete.
  struct Gradient {
    Vector values;
    std::uint64_t samples = 0;
    std::uint64_t steps = 0;  ///< Local steps that made the change.
    std::uint64_t first = 0;  ///< See first_sample().
    std::size_t begin = 0;    ///< The values from this element to the end are final.
    std::uint64_t job = 0;    ///< The job that computes the gradient; 0: not requested yet.
    std::size_t array = 0;    ///< Floats of the array to average; 0: not known yet.
    bool valid = false;       ///< True if the gradient belongs to the current model.
  };

  void cut();
  void open(Effects& out);
  void note_length(PeerId from, const Block& block);
  /// Where the contribution checksum begins. If arrays are averaged, the array's weight precedes
  /// it.
  std::size_t checksum_at() const { return plan_.elements + (options_.averages_arrays ? 1 : 0); }
  void offer_buckets(Effects& out);

  PeerId self_;
  AllReduceOptions options_;
  std::shared_ptr<const GradientCompressor> compressor_;
  AllReduceShape shape_;
  GradientSum sum_;  ///< Describes the newest collective to the compressor.
  CompressionPlan plan_;
  std::uint32_t share_ = 0;  ///< Our share, before the batch grows.
  /// Samples that lower ranks take in one step, before the batch grows.
  std::uint64_t before_ = 0;
  std::vector<std::uint32_t> shares_;  ///< Samples of each rank in one step before growth.
  std::uint64_t growth_ = 1;           ///< Factor by which all shares have grown.
  float weight_ = 1;
  std::uint64_t samples_ = 0;  ///< Samples that all peers take in one step, before the batch grows.
  std::uint64_t steps_ = 1;
  Gradient gradient_;
  std::optional<AllReduce> reduce_;
  bool quiet_ = false;
  /// True if the collective has begun, but the length of our array is not known yet.
  bool awaits_array_ = false;
  bool has_unlike_ = false;
  std::vector<bool> offered_;  ///< For each bucket: true if `reduce_` has our values.
  EarlyBlocks held_;           ///< Blocks of collectives that we have not begun yet.
  VectorPool gradients_;  ///< Holds two vectors, because a collective may begin before the last job
                          ///< is done.
  VectorPool works_;
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace gv
