// The operation that everybody in a generation makes together: one sum of what each brings.
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
#include "peer/node/replica.hpp"

namespace gv {

/// Keeps our own gradient (or what our local steps take) until its sum is applied, however often
/// that is begun, and blocks of others that come before we are ready for them. Pure.
class Collective {
 public:
  using Vector = VectorPool::Vector;

  /// `elements` are a gradient's.
  Collective(PeerId self, std::size_t elements, const AllReduceOptions& options);

  /// The generation in which operations are made from now on. Our own place in it is fixed by its
  /// order.
  void enter(const Generation& generation);
  /// The sum under way is given up. Blocks are kept that belong to the generation of that key.
  void leave(std::uint64_t next_key);

  /// Begins the operation named by the step it begins at, of so many steps, with the gradient for
  /// it if there is one, and asks for one otherwise.
  void begin(std::uint64_t step, std::uint64_t steps, Effects& out);
  /// While it is quiet, nothing of ours goes into sums.
  void set_quiet(bool quiet, Effects& out);
  bool is_quiet() const { return quiet_; }
  /// What a job has to compute, asked for once; that job is then known by its number.
  std::optional<GradientOrder> order(std::uint64_t job);
  /// The gradient that the job computes is final from element `begin` on.
  void ready(std::uint64_t job, std::size_t begin, Effects& out);
  /// No job writes to a gradient any more.
  void job_done() { lent_.reset(); }
  /// The replica is another: what was computed on it is of no use.
  void forget_gradient() { gradient_.valid = false; }

  /// Where a piece of the sum under way shall lie (AllReduce::place).
  std::span<std::byte> place(PeerId from, const TransferId& id, std::uint64_t offset,
                             std::size_t bytes);
  /// True if the block was a piece of the sum under way.
  bool receive(PeerId from, const Block& block, Effects& out);
  /// Keeps a block of another operation until that begins; not too many of them.
  void keep(PeerId from, const Block& block) { held_.keep(from, block); }

  /// Nothing of ours is in the operation under way.
  bool is_untouched() const;
  bool is_done() const { return reduce_ && reduce_->done(); }
  /// Ends the operation that is done. The weighted sum, or null if not everybody is in it once;
  /// then the operation may be begun again.
  Vector finish();

  /// Our part is given, and something of others is not there.
  bool is_waiting() const;
  bool involves(PeerId peer) const { return reduce_ && reduce_->involves(peer); }
  /// Grows while there is progress.
  std::uint64_t progress() const { return reduce_ ? reduce_->progress() : 0; }

  /// Those in the newest generation, by rank, and how their sums are made.
  const std::vector<PeerId>& order() const { return shape_.order; }
  std::size_t rank() const { return rank_; }
  ReduceAlgorithm algorithm() const { return shape_.algorithm; }
  /// Steps of the newest operation, and samples of everybody in all of them.
  std::uint64_t steps() const { return steps_; }
  std::uint64_t samples() const { return steps_ * samples_; }
  /// Whether what is summed is what local steps take from the model.
  bool is_local() const { return local_; }
  /// What the newest sum has to be unpacked by; null: it is a gradient as it is.
  const std::shared_ptr<const SufficientFactors>& sufficient_factors() const {
    return sufficient_factors_;
  }
  /// Of all operations that are over.
  std::uint64_t bytes_sent() const { return bytes_sent_; }

 private:
  /// The gradient, or what local steps take, for the operation that is next, computed or being
  /// computed.
  struct Gradient {
    Vector values;
    std::uint32_t samples = 0;
    std::size_t begin = 0;  ///< Final from here on.
    std::uint64_t job = 0;  ///< That computes it; 0: not asked for yet.
    bool valid = false;     ///< Belongs to the model as it is.
  };

  void cut(std::size_t elements);
  void cut_with_factors(const std::vector<std::uint32_t>& shares);
  void offer_buckets(Effects& out);

  PeerId self_;
  std::size_t gradient_elements_;
  std::size_t elements_ = 0;  ///< Of what travels.
  AllReduceOptions options_;
  AllReduceShape shape_;
  PowerSgd::Turn turn_;  ///< Where gradients travel as thin factors.
  /// Where they travel as these: of this generation.
  std::shared_ptr<const SufficientFactors> sufficient_factors_;
  std::size_t rank_ = 0;
  std::uint32_t share_ = 0;
  float weight_ = 1;
  std::uint64_t samples_ = 0;  ///< Of everybody in one step.
  std::uint64_t steps_ = 1;
  std::size_t keep_ = 0;  ///< Values of every 512 that travel.
  bool local_ = false;
  Gradient gradient_;
  Vector lent_;  ///< What the job under way writes to.
  std::optional<AllReduce> reduce_;
  bool quiet_ = false;
  std::vector<bool> offered_;  ///< Buckets of `reduce_` whose input was given to it.
  EarlyBlocks held_;           ///< Of operations that we have not begun yet.
  VectorPool gradients_;  ///< Two: the next operation may begin before the job says it is done.
  VectorPool works_;
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace gv
