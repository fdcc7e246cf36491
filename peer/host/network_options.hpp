// From a config to the options of the network and of the process that uses it.
#pragma once

#include <memory>
#include <string>

#include "base/problems.hpp"
#include "net/bulk_lanes.hpp"
#include "peer/config/config.hpp"

namespace gv {

/// Tells the allocator what to keep. A large model's snapshots and forces come and go: returned to
/// the system they do not pile up in the heap. Smaller ones stay in the heap, which saves a page
/// fault every 4 KiB; in mode `allreduce` also the end of the heap, where early blocks wait.
void keep_small_memory(ModeKind mode);

/// Takes as many descriptors as the system lets us have; a problem if these are too few to begin
/// with. Without one libzmq would end the process later.
Problems take_descriptors();

/// "host" of "host:port" or "[v6]:port"; empty of an empty address.
std::string host_part(const std::string& address);

BulkLanes::Security lane_security(LaneKind lane);

/// A shared buffer for peers on this host; null where lanes never stay within it, or there is no
/// memory.
std::shared_ptr<SharedBuffer> memory_to_share(LaneKind lane);

}  // namespace gv
