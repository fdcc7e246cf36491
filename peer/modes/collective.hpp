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
/// often that sum has to begin again. Also keeps blocks of other peers that arrive before we are
/// ready for them.
///
/// Where arrays are averaged, a collective waits for our array, which says how long it is. The
/// pieces of others that come before are kept. Pure.
class Collective {
 public:
  using Vector = VectorPool::Vector;

  /// `elements`: size of a gradient.
  Collective(PeerId self, std::size_t elements, const AllReduceOptions& options);

  /// Collectives belong to this generation from now on. Its order fixes our rank.
  void enter(const Generation& generation);
  /// Gives up the sum under way. Keeps early blocks of the generation with that key.
  void leave(std::uint64_t next_key);

  /// Begins the collective named by its first step, of `steps` steps, whose batch is `growth` times
  /// the first. Uses the gradient computed for it if there is one, and asks for one otherwise.
  void begin(std::uint64_t step, std::uint64_t steps, std::uint64_t growth, Effects& out);
  /// While quiet, none of our values enter a sum.
  void set_quiet(bool quiet, Effects& out);
  bool is_quiet() const { return quiet_; }
  /// The gradient that job number `job` has to compute. Each gradient is ordered once.
  std::optional<task::ComputeGradient> order(std::uint64_t job);
  /// The gradient that the job computes is final from element `begin` on.
  void ready(std::uint64_t job, std::size_t begin, Effects& out);
  /// The program has given the array for which that job has waited, of `length` floats. True if it
  /// is the one of the collective under way, or of the next.
  bool receive_array(std::uint64_t job, std::size_t length, Effects& out);
  /// The floats of our array; 0 before it is given.
  std::size_t array() const { return gradient_.valid ? gradient_.array : 0; }
  /// True if a peer has sent a piece of an array of another length.
  bool has_unlike_arrays() const { return has_unlike_; }
  /// Drops our gradient because the replica was replaced.
  void forget_gradient() { gradient_.valid = false; }

  /// Where to put a piece of the sum under way (AllReduce::place).
  std::span<std::byte> place(PeerId from, const TransferId& id, std::uint64_t offset,
                             std::size_t bytes);
  /// True if the block was a piece of the sum under way.
  bool receive(PeerId from, const Block& block, Effects& out);
  /// Keeps a piece of a later collective until that begins, within a memory limit.
  void keep(PeerId from, const Block& block) { held_.keep(from, block); }

  /// True if the collective under way contains none of our values.
  bool is_untouched() const;
  bool is_done() const { return reduce_ && reduce_->done(); }
  /// The peer that sent values which are not finite, or too long; the collective cannot be finished
  /// then.
  std::optional<PeerId> unsound_from() const {
    return reduce_ ? reduce_->unsound_from() : std::nullopt;
  }
  /// Ends the collective that is done. Returns the weighted sum, or null if the contribution
  /// checksum shows that a peer is missing or counted twice; the collective may then begin again.
  Vector finish();

  /// True if all our values are in the sum and we wait for other peers.
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
  std::uint64_t share() const { return growth_ * share_; }
  /// With leased data: our first sample, counted from the first of the newest collective.
  std::uint64_t first_sample() const { return steps_ * growth_ * before_; }
  /// True if the collective sums local steps and not gradients.
  bool is_local() const { return sum_.local; }
  /// The form in which values travel in the newest collective.
  const CompressionPlan& plan() const { return plan_; }
  /// Bytes sent in all collectives that are over.
  std::uint64_t bytes_sent() const { return bytes_sent_; }

 private:
  /// The gradient (or the change by local steps) for the next collective, maybe not finished yet.
  struct Gradient {
    Vector values;
    std::uint64_t samples = 0;
    std::uint64_t steps = 0;  ///< Local steps in it.
    std::uint64_t first = 0;  ///< As first_sample().
    std::size_t begin = 0;    ///< Values are final from this element on.
    std::uint64_t job = 0;    ///< Job that computes it; 0: not asked for yet.
    std::size_t array = 0;    ///< Floats of the array to average; 0: not known yet.
    bool valid = false;       ///< Belongs to the current model.
  };

  void cut();
  void open(Effects& out);
  void note_length(PeerId from, const Block& block);
  /// Where the contribution checksum begins: behind an array is its weight.
  std::size_t checksum_at() const { return plan_.elements + (options_.averages_arrays ? 1 : 0); }
  void offer_buckets(Effects& out);

  PeerId self_;
  AllReduceOptions options_;
  std::shared_ptr<const GradientCompressor> compressor_;
  AllReduceShape shape_;
  GradientSum sum_;  ///< The newest collective, for the compressor.
  CompressionPlan plan_;
  std::uint32_t share_ = 0;   ///< Before the batch grows, and so are the next two.
  std::uint64_t before_ = 0;  ///< Samples of the ranks below ours in one step.
  std::uint64_t growth_ = 1;  ///< Factor on all shares.
  float weight_ = 1;
  std::uint64_t samples_ = 0;  ///< Samples of all peers in one step.
  std::uint64_t steps_ = 1;
  Gradient gradient_;
  std::optional<AllReduce> reduce_;
  bool quiet_ = false;
  bool awaits_array_ = false;  ///< The collective has begun, and its length is not known yet.
  bool has_unlike_ = false;
  std::vector<bool> offered_;  ///< True for buckets whose input `reduce_` has.
  EarlyBlocks held_;           ///< Blocks of a collective that we have not begun yet.
  VectorPool gradients_;       ///< Two: a collective may begin before the last job is done.
  VectorPool works_;
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace gv
