// The process group of a launched run, which lets stopped processes end when the launcher dies.
#pragma once

#include <sys/types.h>

namespace gv {

/// A group that children join, led by a small process of its own. A stopped child handles SIGTERM
/// only after SIGCONT, which a killed launcher cannot send. So the leader sends SIGCONT to the
/// whole group when the launcher dies. (The kernel sends SIGCONT to a group that becomes orphaned,
/// but not to a process whose threads have not all stopped at that moment.)
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
  int lifeline_;  ///< Our end of a pipe, which closes when this process is gone.
};

}  // namespace gv
