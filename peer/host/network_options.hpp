// From a config to the options of the network and of the process that uses it.
#pragma once

#include <memory>

#include "net/bulk_lanes.hpp"
#include "peer/config/config.hpp"

namespace gv {

/// Tells the allocator what to keep. A large model's snapshots and forces come and go: given back
/// to the system they do not pile up in the heap. Smaller ones stay in the heap, which spares them
/// a page fault every 4 KiB; in lockstep also the end of the heap, where blocks wait that came
/// early.
void keep_small_memory(ModeKind mode);

BulkLanes::Security lane_security(LaneKind lane);

/// Memory to lend to peers on this host; null where lanes never stay within it, or there is none.
std::shared_ptr<SharedBuffer> memory_to_share(LaneKind lane);

}  // namespace gv
