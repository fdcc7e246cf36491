// Fork, exec, signal, reap.
#include "sim/local/process.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>

namespace gv {

std::string to_string(const Ending& ending) {
  return ending.signal != 0 ? "killed by signal " + std::to_string(ending.signal)
                            : "exit code " + std::to_string(ending.exit_code);
}

ChildProcess::ChildProcess(const std::vector<std::string>& arguments,
                           const std::filesystem::path& output, pid_t group) {
  // Everything the child needs is made before the fork: after it only async-signal-safe calls
  // follow.
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const int log = ::open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (log < 0) throw std::system_error(errno, std::generic_category(), output.string());
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(127);
    // A terminal's Ctrl-C goes to the launcher alone, which passes it on in order.
    ::setpgid(0, group);
    const int null = ::open("/dev/null", O_RDONLY);
    if (null >= 0) ::dup2(null, STDIN_FILENO);
    ::dup2(log, STDOUT_FILENO);
    ::dup2(log, STDERR_FILENO);
    // A connection of ours that a child held as well would not end when we close it.
    ::close_range(STDERR_FILENO + 1, ~0U, 0);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  const int error = errno;
  ::close(log);
  if (pid_ < 0) throw std::system_error(error, std::generic_category(), "cannot start a process");
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), ending_(other.ending_) {}

ChildProcess::~ChildProcess() {
  if (pid_ < 0 || ending()) return;
  ::kill(pid_, SIGKILL);
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
}

void ChildProcess::signal(int number) {
  if (!ending()) ::kill(pid_, number);
}

std::optional<Ending> ChildProcess::ending() {
  if (ending_ || pid_ < 0) return ending_;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) == pid_) {
    Ending ending;
    if (WIFSIGNALED(status)) {
      ending.signal = WTERMSIG(status);
    } else {
      ending.exit_code = WEXITSTATUS(status);
    }
    ending_ = ending;
  }
  return ending_;
}

}  // namespace gv
