// The sums that the members of a group make inside their passes through a stage.
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

/// Names a sum of a run: its pass, and the part of the pass that it follows.
struct GroupSumName {
  std::uint32_t stage = 0;
  std::uint32_t micro_batch = 0;
  bool backward = false;
  std::size_t part = 0;

  auto operator<=>(const GroupSumName&) const = default;
};

/// One peer's sums under way. Their numbers are functions of their names, so members agree on them
/// without messages. A block of a sum that this peer has not opened yet waits. Pure.
class GroupSums {
 public:
  GroupSums(PeerId self, const PipelineOptions& options);

  /// Sums belong to this generation from now on. Its runs have at most `micro_batches`.
  void enter(std::uint64_t generation, std::size_t micro_batches);
  void leave();
  /// Sums belong to this run from now on. The last run's sums are over.
  void begin(std::uint64_t run);

  /// The sums of a pass, between its parts.
  const std::vector<GroupSum>& sums_of(std::uint32_t stage, std::uint32_t micro_batch,
                                       bool backward) const;
  /// Opens a sum over `members`, whose slices are cut as in `place`. Returns the memory for our
  /// summand.
  StageValues open(const GroupSumName& name, const std::vector<PeerId>& members,
                   const GroupPlace& place);
  /// Our summand is written.
  void ready(const GroupSumName& name, Effects& out);
  /// The sum; null until it is complete.
  StageValues result(const GroupSumName& name) const;
  void close(const GroupSumName& name);

  /// True for pieces of such sums, in any run.
  bool owns(const TransferId& id) const {
    return id.kind == TransferKind::piece && id.stage >= first_id_;
  }
  /// The stage whose group sums, for an id that is ours.
  std::uint32_t stage_of(const TransferId& id) const { return id.stage - first_id_; }
  /// True if the block is useful now, or later in this run or the next.
  bool receive(PeerId from, const Block& block, Effects& out);
  std::span<std::byte> place(PeerId from, const TransferId& id, std::uint64_t offset,
                             std::size_t bytes);

  std::optional<PeerId> unsound_from() const;
  std::uint64_t bytes_sent() const { return bytes_sent_; }
  std::size_t held_bytes() const { return early_.bytes(); }

 private:
  /// The name of the sum to which a piece belongs; nullopt if the run has no such sum.
  std::optional<GroupSumName> name_of(const TransferId& id) const;
  /// The index of a piece's sum, counted from the first sum of this run.
  std::uint64_t place_in_run(const TransferId& id) const;
  std::uint64_t sums_in_run() const { return 2 * micro_batches_ * parts_max_; }
  StageValues blank(std::size_t size);

  PeerId self_;
  PipelineOptions options_;
  std::vector<std::vector<GroupSum>> sums_in_tests_;  ///< Forward sums of tests, by stage.
  std::uint32_t first_id_ = 0;  ///< Takes the place of a stage's number; follows the numbers of all
                                ///< parts.
  std::size_t parts_max_ = 1;   ///< Largest number of sums in a pass.
  std::uint64_t key_ = 0;
  std::size_t micro_batches_ = 0;
  std::uint64_t run_ = 0;
  std::map<GroupSumName, AllReduce> sums_;
  EarlyBlocks early_;
  std::map<std::size_t, VectorPool> pools_;  ///< Pools by the size of their vectors.
  std::uint64_t bytes_sent_ = 0;             ///< Bytes sent in closed sums.
};

}  // namespace gv
