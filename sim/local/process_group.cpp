// Forks a group leader that waits for the end of a pipe.
#include "sim/local/process_group.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>

#include "sim/local/process.hpp"

namespace gv {

namespace {

/// The leader's code. It runs after fork, so it may make only async-signal-safe calls.
[[noreturn]] void lead(int lifeline) {
  ::setpgid(0, 0);
  // The kernel sends SIGHUP to a group that becomes orphaned.
  ::signal(SIGHUP, SIG_IGN);
  // Close our copy of the pipe's other end. Otherwise we would never see the end of the pipe.
  ::dup2(lifeline, STDIN_FILENO);
  ::close_range(STDIN_FILENO + 1, ~0U, 0);
  char nothing = 0;
  while (::read(STDIN_FILENO, &nothing, 1) < 0 && errno == EINTR) {
  }
  ::kill(0, SIGCONT);
  ::_exit(0);
}

}  // namespace

ProcessGroup::ProcessGroup() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    throw std::system_error(errno, std::generic_category(), "cannot make a pipe");
  }
  leader_ = ::fork();
  if (leader_ == 0) lead(ends[0]);
  const int error = errno;
  ::close(ends[0]);
  lifeline_ = ends[1];
  if (leader_ < 0) {
    ::close(lifeline_);
    throw std::system_error(error, std::generic_category(), "cannot start a process");
  }
  // The leader sets its group, too. Set it here as well, so that it exists before the first child
  // joins.
  ::setpgid(leader_, leader_);
}

ProcessGroup::~ProcessGroup() {
  ::close(lifeline_);
  reap(leader_);
}

}  // namespace gv
