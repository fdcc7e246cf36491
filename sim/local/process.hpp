// A child process, which is signalled and reaped by its pid alone.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace gv {

/// How a child ended.
struct Ending {
  int exit_code = 0;  ///< Valid if `signal` is 0.
  int signal = 0;     ///< The signal that killed the child, or 0 if it exited.
};

/// A text for people, for example "exit code 2" or "killed by signal 9".
std::string to_string(const Ending& ending);

/// Waits for a child to end, and reaps it.
void reap(pid_t child);

/// Owns one child. The child gets SIGTERM when this process dies, so that it does not outlive us
/// (see ProcessGroup for stopped children).
class ChildProcess {
 public:
  /// Runs `arguments` (the program's path first) in process group `group`; 0 means a group of its
  /// own. Appends the program's output to `output`. Throws std::system_error if the program cannot
  /// be started.
  ChildProcess(const std::vector<std::string>& arguments, const std::filesystem::path& output,
               pid_t group = 0);

  /// Kills and reaps a child that still runs.
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;

  pid_t pid() const { return pid_; }

  /// Sends a signal unless the child has ended.
  void signal(int number);

  /// Reaps the child if it has ended; returns nullopt while it runs. Never blocks.
  std::optional<Ending> ending();

 private:
  pid_t pid_;
  std::optional<Ending> ending_;
};

}  // namespace gv
