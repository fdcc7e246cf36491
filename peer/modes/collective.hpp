// One collective after another: sums over the peers of a generation.
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

/// Keeps our own gradient (or the change by our local steps) until its sum is finished, however
/// often the sum has to restart. Also keeps other peers' blocks that arrive before we are ready for
/// them.
///
/// If arrays are averaged, a collective waits for our array to learn its length. Pieces from others
/// that come earlier are kept. Pure.
class Collective {
 public:
  using Vector = VectorPool::Vector;

  /// `elements`: size of a gradient.
  Collective(PeerId self, std::size_t elements, const AllReduceOptions& options);

  /// Collectives belong to this generation from now on. Its order fixes our rank.
  void enter(const Generation& generation);
  /// Gives up the sum under way. Keeps early blocks of the generation with key `next_key`.
  void leave(std::uint64_t next_key);

  /// Begins the collective of `steps` steps, which is named by its first step. Its batch is
  /// `growth` times the first batch. Uses the gradient computed for it if there is one, and
  /// otherwise asks for one.
  void begin(std::uint64_t step, std::uint64_t steps, std::uint64_t growth, Effects& out);
  /// While `quiet`, none of our values enter a sum.
  void set_quiet(bool quiet, Effects& out);
  bool is_quiet() const { return quiet_; }
  /// The gradient that job number `job` has to compute. Each gradient is returned once.
  std::optional<task::ComputeGradient> order(std::uint64_t job);
  /// The gradient that the job computes is final from element `begin` on.
  void ready(std::uint64_t job, std::size_t begin, Effects& out);
  /// The program has given the array of `length` floats for which that job has waited. Returns true
  /// if the array belongs to the collective under way, or to the next one.
  bool receive_array(std::uint64_t job, std::size_t length, Effects& out);
  /// Floats of our array; 0 before it is given.
  std::size_t array() const { return gradient_.valid ? gradient_.array : 0; }
  /// True if a peer has sent a piece of an array with a different length.
  bool has_unlike_arrays() const { return has_unlike_; }
  /// Drops our gradient because the replica was replaced.
  void forget_gradient() { gradient_.valid = false; }

  /// Where to put a piece of the sum under way (AllReduce::place).
  std::span<std::byte> place(PeerId from, const TransferId& id, std::uint64_t offset,
                             std::size_t bytes);
  /// True if the block was a piece of the sum under way.
  bool receive(PeerId from, const Block& block, Effects& out);
  /// Keeps a piece of a later collective until the collective begins, within a memory limit.
  void keep(PeerId from, const Block& block) { held_.keep(from, block); }

  /// True if the collective under way contains none of our values.
  bool is_untouched() const;
  bool is_done() const { return reduce_ && reduce_->done(); }
  /// The peer that sent values which are not finite or too large. The collective cannot be finished
  /// then.
  std::optional<PeerId> unsound_from() const {
    return reduce_ ? reduce_->unsound_from() : std::nullopt;
  }
  /// Ends the finished collective. Returns the weighted sum, or null if the contribution checksum
  /// shows that a peer is missing or counted twice; then the collective may restart.
  Vector finish();

  /// True if all our values are in the sum and we are waiting for other peers.
  bool is_waiting() const;
  bool involves(PeerId peer) const { return reduce_ && reduce_->involves(peer); }
  /// Grows while there is progress.
  std::uint64_t progress() const { return reduce_ ? reduce_->progress() : 0; }

  /// Peers of the newest generation by rank, our rank, and their algorithm.
  const std::vector<PeerId>& order() const { return shape_.order; }
  std::size_t rank() const { return sum_.rank; }
  ReduceAlgorithm algorithm() const { return shape_.algorithm; }
  /// Steps of the newest collective, and samples of all peers in all these steps.
  std::uint64_t steps() const { return steps_; }
  std::uint64_t samples() const { return steps_ * samples_of_step(); }
  /// Samples of all peers in one step of the newest collective, and our share of them.
  std::uint64_t samples_of_step() const { return growth_ * samples_; }
  /// The same as long as no batch has grown.
  std::uint64_t samples_before_growth() const { return samples_; }
  std::uint64_t share() const { return growth_ * share_; }
  /// With leased data: our first sample, counted from the first of the newest collective.
  std::uint64_t first_sample() const { return steps_ * growth_ * before_; }
  /// True if the collective sums local steps and not gradients.
  bool is_local() const { return sum_.local; }
  /// The encoding of values in the newest collective.
  const CompressionPlan& plan() const { return plan_; }
  /// Bytes sent in all finished collectives.
  std::uint64_t bytes_sent() const { return bytes_sent_; }

 private:
  /// The gradient (or the change by local steps) for the next collective, possibly unfinished.
  struct Gradient {
    Vector values;
    std::uint64_t samples = 0;
    std::uint64_t steps = 0;  ///< Local steps in the change.
    std::uint64_t first = 0;  ///< As first_sample().
    std::size_t begin = 0;    ///< Values are final from this element on.
    std::uint64_t job = 0;    ///< The job that computes it; 0: not requested yet.
    std::size_t array = 0;    ///< Floats of the array to average; 0: not known yet.
    bool valid = false;       ///< True if it belongs to the current model.
  };

  void cut();
  void open(Effects& out);
  void note_length(PeerId from, const Block& block);
  /// Where the contribution checksum begins. After an array comes its weight.
  std::size_t checksum_at() const { return plan_.elements + (options_.averages_arrays ? 1 : 0); }
  void offer_buckets(Effects& out);

  PeerId self_;
  AllReduceOptions options_;
  std::shared_ptr<const GradientCompressor> compressor_;
  AllReduceShape shape_;
  GradientSum sum_;  ///< The newest collective, for the compressor.
  CompressionPlan plan_;
  std::uint32_t share_ = 0;   ///< Our share before the batch grows. The next two fields are also
                              ///< before growth.
  std::uint64_t before_ = 0;  ///< Samples of the ranks below ours in one step.
  std::uint64_t growth_ = 1;  ///< Factor by which all shares have grown.
  float weight_ = 1;
  std::uint64_t samples_ = 0;  ///< Samples of all peers in one step.
  std::uint64_t steps_ = 1;
  Gradient gradient_;
  std::optional<AllReduce> reduce_;
  bool quiet_ = false;
  bool awaits_array_ = false;  ///< True if the collective has begun and the length of our array is
                               ///< not known yet.
  bool has_unlike_ = false;
  std::vector<bool> offered_;  ///< For each bucket, true if `reduce_` has its input.
  EarlyBlocks held_;           ///< Blocks of collectives that we have not begun yet.
  VectorPool gradients_;  ///< Two vectors, because a collective may begin before the last job is
                          ///< done.
  VectorPool works_;
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace gv
