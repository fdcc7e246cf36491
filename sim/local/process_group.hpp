// The process group of a launched run. It ensures that stopped processes end when the launcher
// dies.
#pragma once

#include <sys/types.h>

namespace gv {

/// A group that children join, led by a small process of its own. A stopped child receives SIGTERM
/// only after SIGCONT, and a launcher that was killed cannot send it any more. So the leader sends
/// SIGCONT to the whole group. (The kernel does so for a group that becomes orphaned, but not for a
/// process whose threads have not all stopped at that moment.)
class ProcessGroup {
 public:
  /// Throws std::system_error if the leader cannot be started.
  ProcessGroup();
  /// Ends the leader.
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  pid_t id() const { return leader_; }

 private:
  pid_t leader_;
  int lifeline_;  ///< The pipe whose end tells the leader that this process is gone.
};

}  // namespace gv
