// Numbers the sums of a group, and passes blocks to the sums they belong to.
#include "peer/modes/group_sums.hpp"

#include <algorithm>
#include <utility>

#include "base/magnitude.hpp"
#include "base/state_hash.hpp"

namespace gv {

GroupSums::GroupSums(PeerId self, const PipelineOptions& options)
    : self_(self),
      options_(options),
      first_id_(options.parts().count()),
      early_(pipeline_held_max),
      pools_(options.memory) {
  for (const StageSize& stage : options_.stages) {
    sums_in_tests_.push_back(sums_in_tests(stage.forward_sums));
    parts_max_ = std::max({parts_max_, stage.forward_sums.size(), stage.backward_sums.size()});
  }
}

void GroupSums::enter(std::uint64_t generation, std::size_t micro_batches, std::size_t held_max) {
  leave();
  early_ = EarlyBlocks(held_max);
  key_ = generation;
  micro_batches_ = micro_batches;
}

void GroupSums::leave() {
  key_ = 0;
  sums_.clear();
  early_.take();
}

void GroupSums::begin(std::uint64_t run) {
  run_ = run;
  sums_.clear();
  for (const EarlyBlocks::Held& piece : early_.take()) {
    if (place_in_run(piece.block.id) < 2 * sums_in_run()) early_.keep(piece.from, piece.block);
  }
}

const std::vector<GroupSum>& GroupSums::sums_of(std::uint32_t stage, std::uint32_t micro_batch,
                                                bool backward) const {
  if (backward) return options_.stages[stage].backward_sums;
  // The micro-batches of a test have larger numbers than those of the run.
  const bool is_test = micro_batch >= options_.micro_batches;
  return is_test ? sums_in_tests_[stage] : options_.stages[stage].forward_sums;
}

StageValues GroupSums::open(const GroupSumName& name, const std::vector<PeerId>& members,
                            const GroupPlace& place) {
  const auto& sums = sums_of(name.stage, name.micro_batch, name.backward);
  const GroupSum& sum = sums[name.part];
  const std::size_t size = sum.size(place.cuts);
  const std::uint64_t number = run_ * sums_in_run() +
                               (2 * name.micro_batch + (name.backward ? 1 : 0)) * parts_max_ +
                               name.part;
  const bool is_dealt = !sum.dealt.empty();
  const AllReduceShape shape{.order = members,
                             .generation = key_,
                             .stage = first_id_ + name.stage,
                             .algorithm = fastest(members.size(), size, {}),
                             .buckets = {{0, size}},
                             .parts = is_dealt ? sum.parts(place.cuts) : std::vector<Range>{},
                             .is_dealt = is_dealt,
                             .segment = options_.segment_elements,
                             .largest = largest_gradient};
  StageValues summand = pools_.blank(size);
  sums_.emplace(name, AllReduce(shape, self_, number, 1, summand, pools_.blank(size)));
  return summand;
}

void GroupSums::ready(const GroupSumName& name, Effects& out) {
  const auto found = sums_.find(name);
  if (found == sums_.end()) return;
  found->second.ready(0, out);
  for (const EarlyBlocks::Held& piece : early_.take()) receive(piece.from, piece.block, out);
}

StageValues GroupSums::result(const GroupSumName& name) const {
  const auto found = sums_.find(name);
  return found != sums_.end() && found->second.done() ? found->second.result() : nullptr;
}

void GroupSums::close(const GroupSumName& name) {
  const auto found = sums_.find(name);
  if (found == sums_.end()) return;
  bytes_sent_ += found->second.bytes_sent();
  sums_.erase(found);
}

std::uint64_t GroupSums::place_in_run(const TransferId& id) const {
  return (piece_named(id)->operation - run_ * sums_in_run()) % operations_named;
}

std::optional<GroupSumName> GroupSums::name_of(const TransferId& id) const {
  const std::uint64_t place = place_in_run(id);
  if (place >= sums_in_run()) return std::nullopt;
  const std::uint64_t pass = place / parts_max_;
  return GroupSumName{.stage = stage_of(id),
                      .micro_batch = static_cast<std::uint32_t>(pass / 2),
                      .backward = pass % 2 == 1,
                      .part = static_cast<std::size_t>(place % parts_max_)};
}

bool GroupSums::receive(PeerId from, const Block& block, Effects& out) {
  if (const auto name = name_of(block.id)) {
    const auto found = sums_.find(*name);
    if (found != sums_.end()) return found->second.receive(from, block, out);
  }
  return place_in_run(block.id) < 2 * sums_in_run() && early_.keep(from, block);
}

std::span<std::byte> GroupSums::place(PeerId from, const TransferId& id, std::uint64_t offset,
                                      std::size_t bytes) {
  const auto name = name_of(id);
  const auto found = name ? sums_.find(*name) : sums_.end();
  return found == sums_.end() ? std::span<std::byte>()
                              : found->second.place(from, id, offset, bytes);
}

std::optional<PeerId> GroupSums::unsound_from() const {
  for (const auto& [name, sum] : sums_) {
    if (sum.unsound_from()) return sum.unsound_from();
  }
  return std::nullopt;
}

bool operator==(const GroupSums& a, const GroupSums& b) { return equal_states(a, b); }

}  // namespace gv
