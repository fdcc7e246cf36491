// From a config to the options of the parts that are not described by it alone.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "net/bulk_lanes.hpp"
#include "peer/config.hpp"
#include "peer/node.hpp"
#include "train/layout.hpp"
#include "train/stage_trainer.hpp"

namespace gv {

/// What the node is told. `steps` is this peer's budget; `wait_for` overrides the size of the start
/// barrier when it is larger. A pipeline also needs its `stages`.
Node::Options node_options(const Config& config, const Layout& layout, std::uint64_t steps,
                           std::size_t wait_for, const StageTrainer* stages = nullptr);

/// Tells the allocator what to keep. A large model's snapshots and forces come and go: given back
/// to the system they do not pile up in the heap. Smaller ones stay in the heap, which spares them
/// a page fault every 4 KiB; in lockstep also the end of the heap, where blocks wait that came
/// early.
void keep_small_memory(ModeKind mode);

BulkLanes::Security lane_security(LaneKind lane);

/// Memory to lend to peers on this host; null where lanes never stay within it, or there is none.
std::shared_ptr<LentMemory> memory_to_lend(LaneKind lane);

/// "host" of "host:port" or "[v6]:port"; empty of an empty address.
std::string host_part(const std::string& address);

}  // namespace gv
