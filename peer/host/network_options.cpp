// Derives the options of the lanes, the shared buffer and the allocator from the config.
#include "peer/host/network_options.hpp"

#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <system_error>

namespace gv {
namespace {

constexpr int large_allocation_bytes = 2 << 20;
constexpr int waiting_blocks_bytes = 32 << 20;

constexpr ::rlim_t descriptors_min = descriptors_for(1);

}  // namespace

void keep_small_memory(ModeKind mode) {
#ifdef __GLIBC__
  ::mallopt(M_MMAP_THRESHOLD, large_allocation_bytes);
  if (mode != ModeKind::gossip) ::mallopt(M_TRIM_THRESHOLD, waiting_blocks_bytes);
#endif
}

Problems take_descriptors() {
  ::rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return {};
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= descriptors_min) return {};
  return {{"open files",
           fmt::format("this process may have {}, and a peer needs {} with one partner",
                       limit.rlim_cur, descriptors_min),
           "raise the limit, for example with ulimit -n 1024"}};
}

std::string warning_of_descriptors(std::size_t partners) {
  ::rlimit limit{};
  const std::uint64_t needed = descriptors_for(partners);
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return {};
  return fmt::format(
      "this process may have {} open files, and needs up to {} with {} partners; raise the limit, "
      "for example with ulimit -n {}",
      limit.rlim_cur, needed, partners, std::max<std::uint64_t>(1024, needed));
}

void remove_old_sockets(const std::filesystem::path& lanes) {
  std::error_code error;
  for (auto file = std::filesystem::directory_iterator(lanes, error);
       !error && file != std::filesystem::directory_iterator(); file.increment(error)) {
    std::error_code ignored;
    const bool is_lane = file->path().filename().string().starts_with("lane-");
    if (is_lane && file->is_socket(ignored)) std::filesystem::remove(file->path(), ignored);
  }
}

BulkLanes::Security lane_security(LaneKind lane) {
  switch (lane) {
    case LaneKind::automatic:
      return BulkLanes::Security::automatic;
    case LaneKind::tls:
      return BulkLanes::Security::tls;
    case LaneKind::plain:
      return BulkLanes::Security::plain;
    case LaneKind::unix_socket:
      return BulkLanes::Security::unix_socket;
  }
  return BulkLanes::Security::automatic;
}

std::shared_ptr<SharedBuffer> memory_to_share(LaneKind lane) {
  const bool stays = lane == LaneKind::automatic || lane == LaneKind::unix_socket;
  return stays ? SharedBuffer::make() : nullptr;
}

}  // namespace gv
