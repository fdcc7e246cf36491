// The process group of a launched run: stopped processes go on when the launcher dies.
#pragma once

#include <sys/types.h>

namespace gv {

/// A group that children join, led by a small process of its own. A stopped child gets SIGTERM only
/// once it goes on, and a launcher that was killed cannot wake it any more. So the leader does,
/// with SIGCONT for the whole group. (The kernel does so for a group that becomes orphaned, but not
/// for a process whose threads have not all stopped at that moment.)
class ProcessGroup {
 public:
  /// Throws std::system_error when the leader cannot be started.
  ProcessGroup();
  /// Ends the leader.
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  pid_t id() const { return leader_; }

 private:
  pid_t leader_;
  int lifeline_;  ///< Its end tells the leader that this process is gone.
};

}  // namespace gv
