// Forks, executes, signals and reaps child processes.
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
namespace {

/// Reads a number from a pipe. Returns false if the other end was closed first.
bool read_number(int from, int& number) {
  ssize_t size = 0;
  do {
    size = ::read(from, &number, sizeof number);
  } while (size < 0 && errno == EINTR);
  return size == sizeof number;
}

}  // namespace

void reap(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
}

std::string to_string(const Ending& ending) {
  return ending.signal != 0 ? "killed by signal " + std::to_string(ending.signal)
                            : "exit code " + std::to_string(ending.exit_code);
}

ChildProcess::ChildProcess(const std::vector<std::string>& arguments,
                           const std::filesystem::path& output, pid_t group) {
  // Prepare everything before the fork. After it, the child may make only async-signal-safe calls.
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const int log = ::open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (log < 0) throw std::system_error(errno, std::generic_category(), output.string());
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    const int error = errno;
    ::close(log);
    throw std::system_error(error, std::generic_category(), "cannot make a pipe");
  }
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(127);
    // A terminal's Ctrl-C should reach only the launcher, which ends the children in order.
    ::setpgid(0, group);
    const int null = ::open("/dev/null", O_RDONLY);
    if (null >= 0) ::dup2(null, STDIN_FILENO);
    ::dup2(log, STDOUT_FILENO);
    ::dup2(log, STDERR_FILENO);
    // If the child kept copies of our connections, these would stay open after we close ours.
    ::close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
    ::execv(argv[0], argv.data());
    const int error = errno;
    [[maybe_unused]] const ssize_t written = ::write(ends[1], &error, sizeof error);
    ::_exit(127);
  }
  int error = errno;
  ::close(log);
  ::close(ends[1]);
  // Wait until the program runs. A child that is stopped before exec would keep our connections
  // open.
  const bool failed = pid_ < 0 || read_number(ends[0], error);
  ::close(ends[0]);
  if (!failed) return;
  if (pid_ > 0) reap(pid_);
  throw std::system_error(error, std::generic_category(), "cannot start " + arguments.front());
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), ending_(other.ending_) {}

ChildProcess::~ChildProcess() {
  if (pid_ < 0 || ending()) return;
  ::kill(pid_, SIGKILL);
  reap(pid_);
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
