// Sets the affinity of every thread, because the system has no affinity for whole processes.
#include "peer/host/processors.hpp"

#include <sched.h>
#include <sys/types.h>

#include <charconv>
#include <filesystem>
#include <string>
#include <system_error>

#include "base/check.hpp"

namespace gv {

std::optional<std::size_t> processor_for(const HostPlace& place, std::size_t processors) {
  check(processors > 0 && place.place < place.peers, "a peer has a place and runs somewhere");
  if (place.peers <= processors || place.peers % processors != 0) return std::nullopt;
  return place.place / (place.peers / processors);
}

Processors::Processors() {
  cpu_set_t usable;
  if (::sched_getaffinity(0, sizeof usable, &usable) == 0) {
    for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
      if (CPU_ISSET(processor, &usable)) usable_.push_back(processor);
    }
  }
  if (usable_.empty()) usable_.push_back(0);
}

void Processors::pin_cpu(std::optional<std::size_t> which) {
  if (which == kept_) return;
  kept_ = which;
  cpu_set_t wanted;
  CPU_ZERO(&wanted);
  for (std::size_t i = 0; i < usable_.size(); ++i) {
    if (!which || *which == i) CPU_SET(usable_[i], &wanted);
  }
  std::error_code error;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", error)) {
    const std::string name = thread.path().filename().string();
    pid_t id = 0;
    std::from_chars(name.data(), name.data() + name.size(), id);
    if (id > 0) ::sched_setaffinity(id, sizeof wanted, &wanted);
  }
}

}  // namespace gv
