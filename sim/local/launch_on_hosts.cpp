// Runs one ssh for each host. Its input is the peer's lifeline; its output is printed line by line.
#include "sim/local/launch_on_hosts.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/read_until.hpp>
#include <asio/signal_set.hpp>
#include <asio/streambuf.hpp>
#include <asio/write.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <deque>
#include <fstream>
#include <istream>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>
#include <vector>

#include "base/printable.hpp"
#include "net/cohort.hpp"
#include "net/small_file.hpp"
#include "peer/config/refusal.hpp"
#include "peer/config/task.hpp"
#include "peer/host/host.hpp"
#include "sim/local/hosts.hpp"
#include "sim/local/process.hpp"
#include "sim/run_files.hpp"

namespace gv {
namespace {

constexpr std::size_t hosts_bytes_max = 1 << 20;
constexpr int ssh_failed = 255;  ///< Exit code with which ssh reports a failure of its own.
constexpr std::size_t line_bytes_max = 4096;  ///< Longer lines are printed in pieces.

/// The connection to one host.
struct Connection {
  explicit Connection(asio::io_context& io) : input(io), output(io) {}

  std::string name;   ///< Name of the peer's rank.
  std::string where;  ///< Name of the host.
  /// Input of the remote shell. Closing this input ends the peer.
  asio::posix::stream_descriptor input;
  asio::posix::stream_descriptor output;  ///< Output of the peer and of ssh.
  asio::streambuf said{line_bytes_max};
  SecretText sent;  ///< The config and the secret. They must live until they are written.
  pid_t ssh = -1;
  Ending ending;
};

/// Starts a program with pipes as its input and output. The program gets a process group of its
/// own, so that a terminal's Ctrl-C reaches only the launcher.
void start(Connection& connection, const std::vector<std::string>& words) {
  int input[2] = {-1, -1}, output[2] = {-1, -1};
  if (::pipe2(input, O_CLOEXEC) != 0 || ::pipe2(output, O_CLOEXEC) != 0) {
    throw std::system_error(errno, std::generic_category(), "cannot make a pipe");
  }
  connection.input.assign(input[1]);
  connection.output.assign(output[0]);
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_adddup2(&files, input[0], STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&files, output[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&files, output[1], STDERR_FILENO);
  ::posix_spawnattr_t group;
  ::posix_spawnattr_init(&group);
  ::posix_spawnattr_setflags(&group, POSIX_SPAWN_SETPGROUP);
  const int error =
      ::posix_spawnp(&connection.ssh, argv.front(), &files, &group, argv.data(), ::environ);
  ::posix_spawnattr_destroy(&group);
  ::posix_spawn_file_actions_destroy(&files);
  ::close(input[0]);
  ::close(output[1]);
  if (error != 0) {
    connection.ssh = -1;
    throw std::system_error(error, std::generic_category(), "cannot start " + words.front());
  }
}

class HostsLaunch {
 public:
  HostsLaunch(const HostsLaunchOptions& options, std::vector<RunHost> hosts)
      : options_(options), hosts_(std::move(hosts)) {}
  ~HostsLaunch() { kill_all(); }
  HostsLaunch(const HostsLaunch&) = delete;
  HostsLaunch& operator=(const HostsLaunch&) = delete;

  int run();

 private:
  void connect(std::size_t rank, const std::string& config, const std::string& secret);
  void print_lines(Connection& connection);
  void become_ended(Connection& connection);
  void become_interrupted();
  void await_interrupts();
  void kill_all();
  int summary() const;

  HostsLaunchOptions options_;
  std::vector<RunHost> hosts_;
  asio::io_context io_;
  asio::signal_set signals_{io_, SIGINT, SIGTERM};
  std::deque<Connection> connections_;
  std::size_t running_ = 0;
  std::optional<std::chrono::steady_clock::time_point> interrupted_;
};

void HostsLaunch::connect(std::size_t rank, const std::string& config, const std::string& secret) {
  std::vector<std::string> words;
  std::istringstream ssh(options_.ssh);
  for (std::string word; ssh >> word;) words.push_back(word);
  // With these options, ssh notices the loss of a host within half a minute.
  for (const char* word : {"-T", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=10"}) {
    words.emplace_back(word);
  }
  words.push_back(hosts_[rank].ssh);
  words.push_back(remote_command(hosts_, rank,
                                 {.folder = options_.folder,
                                  .config_bytes = config.size(),
                                  .secret_bytes = secret.size(),
                                  .resume = options_.resume}));
  Connection& connection = connections_.emplace_back(io_);
  connection.name = name_of_rank(rank);
  connection.where = hosts_[rank].ssh;
  connection.sent.text.reserve(config.size() + secret.size());
  connection.sent.text = config;
  connection.sent.text += secret;
  start(connection, words);
  ++running_;
  asio::async_write(connection.input, asio::buffer(connection.sent.text),
                    [](asio::error_code, std::size_t) {});
  print_lines(connection);
}

/// Prints the peer's lines until ssh ends.
void HostsLaunch::print_lines(Connection& connection) {
  asio::async_read_until(connection.output, connection.said, '\n',
                         [this, &connection](asio::error_code error, auto) {
                           std::string line;
                           std::istream in(&connection.said);
                           if (connection.said.size() > 0 && std::getline(in, line)) {
                             const std::string shown = printable(line, line_bytes_max);
                             errno = 0;
                             say(stdout, fmt::format("{} | {}\n", connection.name, shown));
                             // The reader of our output is gone. A full disk is no reason to end.
                             if (errno == EPIPE && !interrupted_) become_interrupted();
                           }
                           // A full buffer is not the end of the output.
                           if (!error || error == asio::error::not_found) {
                             print_lines(connection);
                           } else {
                             become_ended(connection);
                           }
                         });
}

void HostsLaunch::become_ended(Connection& connection) {
  int status = 0;
  while (::waitpid(connection.ssh, &status, 0) < 0 && errno == EINTR) {
  }
  connection.ssh = -1;
  connection.ending = {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0,
                       .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0};
  if (--running_ == 0) io_.stop();
}

/// Lets all peers leave in order.
void HostsLaunch::become_interrupted() {
  interrupted_ = std::chrono::steady_clock::now();
  say(stdout, "the peers leave with a checkpoint; Ctrl-C again stops waiting for them\n");
  for (Connection& connection : connections_) {
    asio::error_code ignored;
    connection.input.close(ignored);
  }
}

void HostsLaunch::await_interrupts() {
  signals_.async_wait([this](asio::error_code error, int) {
    if (error) return;
    const auto now = std::chrono::steady_clock::now();
    if (!interrupted_) {
      become_interrupted();
    } else if (now - *interrupted_ >= same_interrupt) {
      interrupted_ = now;
      kill_all();
    }
    await_interrupts();
  });
}

/// Kills all ssh processes. The peers notice that their connections are gone, and leave by
/// themselves.
void HostsLaunch::kill_all() {
  for (const Connection& connection : connections_) {
    if (connection.ssh > 0) ::kill(connection.ssh, SIGKILL);
  }
}

int HostsLaunch::summary() const {
  int code = 0;
  say(stdout, fmt::format("\n{:10} {:30} {}\n", "rank", "host", "ended with"));
  for (const Connection& connection : connections_) {
    const Ending& ending = connection.ending;
    const bool is_lost = ending.exit_code == ssh_failed;
    say(stdout, fmt::format("{:10} {:30} {}\n", connection.name, connection.where,
                            is_lost ? "no connection by ssh" : to_string(ending)));
    if (ending.exit_code == 2) code = 2;
    if ((ending.exit_code != 0 || ending.signal != 0) && code == 0) code = 1;
  }
  return code;
}

int HostsLaunch::run() {
  SecretText secret;
  write_cohort_secret(generate_cohort_secret(), secret);
  const std::string config = read_config_text(options_.config);
  say(stdout, fmt::format("{} peers train on {} hosts, each below {}/RANK there\n", hosts_.size(),
                          hosts_.size(), options_.folder));
  await_interrupts();
  for (std::size_t rank = 0; rank < hosts_.size(); ++rank) connect(rank, config, secret.text);
  io_.run();
  return summary();
}

}  // namespace

int launch_on_hosts(const HostsLaunchOptions& options) {
  std::ifstream in(options.hosts, std::ios::binary);
  std::string text(hosts_bytes_max, 0);
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (!in.eof()) {
    return fail({{options.hosts, "cannot be read, or is too long to be a list of hosts",
                  "name a file with a host on each line"}});
  }
  RunHosts hosts = read_hosts(text, options.hosts, options.port);
  if (!hosts.problems.empty()) return fail(hosts.problems);
  const RunFiles files = read_run_files(options.config, {}, hosts.hosts.size());
  if (!files.problems.empty()) return fail(files.problems);
  // Writing to a closed pipe must not end us: we still have to tell the other peers to leave.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return HostsLaunch(options, std::move(hosts.hosts)).run();
  } catch (const std::exception& error) {
    say(stderr, fmt::format("launch: {}\n", error.what()));
    return 1;
  }
}

}  // namespace gv
