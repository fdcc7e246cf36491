// Makes the options of the network and of the peer's process from a config.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "base/problems.hpp"
#include "net/bulk_lanes.hpp"
#include "peer/config/config.hpp"

namespace gv {

/// Tunes the allocator. A large model's snapshots and forces are allocated and freed often. Their
/// memory is returned to the system immediately, so it cannot pile up in the heap. Smaller blocks
/// stay in the heap, which saves a page fault every 4 KiB. Except in mode `gossip`, freed memory at
/// the end of the heap is also kept, because early blocks are stored there.
void keep_small_memory(ModeKind mode);

/// An upper bound on the descriptors that a peer needs. Without partners, a peer has 25 open. Each
/// partner takes up to five more, and files being written also take some.
constexpr std::uint64_t descriptors_for(std::size_t partners) { return 31 + 5 * partners; }

/// Raises the limit on descriptors as far as the system allows. Reports a problem if the limit is
/// too low to start, because libzmq would end the process when no descriptor is left.
Problems take_descriptors();

/// A warning if the limit on descriptors is too low for this many partners; otherwise empty.
std::string warning_of_descriptors(std::size_t partners);

/// Removes the lanes' sockets that a killed process of this peer has left in the folder. Call
/// before the lanes open, while no other process uses the folder.
void remove_old_sockets(const std::filesystem::path& lanes);

BulkLanes::Security lane_security(LaneKind lane);

/// Returns a shared buffer for peers on this host; null if no lane stays within the host or there
/// is no memory.
std::shared_ptr<SharedBuffer> memory_to_share(LaneKind lane);

}  // namespace gv
