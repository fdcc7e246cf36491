// Makes the sums that the members of a group need during their passes through a stage.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "consensus/allreduce/all_reduce.hpp"
#include "consensus/message/effects.hpp"
#include "peer/modes/early_blocks.hpp"
#include "peer/modes/pipeline_options.hpp"
#include "peer/modes/vector_pool.hpp"
#include "peer/node/job.hpp"

namespace gv {

/// Names one of a run's sums by the pass, and by the part of the pass that precedes the sum.
struct GroupSumName {
  std::uint32_t stage = 0;
  std::uint32_t micro_batch = 0;
  bool backward = false;
  std::size_t part = 0;

  auto operator<=>(const GroupSumName&) const = default;
};

/// Follows a peer's sums under way. The number of each sum follows from its name, so members agree
/// on numbers without messages. If a block belongs to a sum that this peer has not opened yet, the
/// block is kept. Pure, with value semantics. A copy shares the summands of open sums, which only
/// the caller writes.
class GroupSums {
 public:
  GroupSums(PeerId self, const PipelineOptions& options);

  /// Starts a generation in which each run has at most `micro_batches` micro-batches. At most
  /// `held_max` bytes of each sender's early blocks are kept.
  void enter(std::uint64_t generation, std::size_t micro_batches,
             std::size_t held_max = pipeline_held_max);
  void leave();
  /// Starts a run, and ends all sums of the previous one.
  void begin(std::uint64_t run);

  /// The sums of a pass: one between each part and the next.
  const std::vector<GroupSum>& sums_of(std::uint32_t stage, std::uint32_t micro_batch,
                                       bool backward) const;
  /// Opens a sum over `members`, divided into slices as in `place`. Returns the memory for our
  /// summand.
  StageValues open(const GroupSumName& name, const std::vector<PeerId>& members,
                   const GroupPlace& place);
  /// Call when our summand has been written.
  void ready(const GroupSumName& name, Effects& out);
  /// The result of the sum; null until the sum is complete.
  StageValues result(const GroupSumName& name) const;
  void close(const GroupSumName& name);

  /// True if the id names a piece of a group sum, in any run.
  bool owns(const TransferId& id) const {
    return id.kind == TransferKind::piece && id.stage >= first_id_;
  }
  /// Returns the stage to which a group sum's id belongs. Call it only for ids for which owns() is
  /// true.
  std::uint32_t stage_of(const TransferId& id) const { return id.stage - first_id_; }
  /// Takes a block. Returns true if the block is useful now, later in this run, or in the next run.
  bool receive(PeerId from, const Block& block, Effects& out);
  std::span<std::byte> place(PeerId from, const TransferId& id, std::uint64_t offset,
                             std::size_t bytes);

  std::optional<PeerId> unsound_from() const;
  std::uint64_t bytes_sent() const { return bytes_sent_; }
  std::size_t held_bytes() const { return early_.bytes(); }

  friend class Fields;
  static constexpr std::size_t field_count = 12;
  friend bool operator==(const GroupSums& a, const GroupSums& b);

 private:
  /// The name of the sum to which a piece belongs; nullopt if the run has no such sum.
  std::optional<GroupSumName> name_of(const TransferId& id) const;
  /// The index of the sum that a piece belongs to, counted from the first sum of this run.
  std::uint64_t place_in_run(const TransferId& id) const;
  std::uint64_t sums_in_run() const { return 2 * micro_batches_ * parts_max_; }

  PeerId self_;
  PipelineOptions options_;
  /// The sums of each stage's forward pass in tests.
  std::vector<std::vector<GroupSum>> sums_in_tests_;
  std::uint32_t first_id_ = 0;  ///< The id of stage 0's group sums, used in place of a stage
                                ///< number. It is above the numbers of all parts.
  std::size_t parts_max_ = 1;   ///< The largest number of sums in a pass.
  std::uint64_t key_ = 0;
  std::size_t micro_batches_ = 0;
  std::uint64_t run_ = 0;
  std::map<GroupSumName, AllReduce> sums_;
  EarlyBlocks early_;
  VectorPools pools_;
  std::uint64_t bytes_sent_ = 0;  ///< Bytes sent in sums that have been closed.
};

}  // namespace gv
