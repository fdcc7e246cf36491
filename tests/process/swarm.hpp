// Real peers for tests: real processes, real signals, and waits for conditions with a deadline.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "net/identity.hpp"
#include "sim/local/process.hpp"
#include "tests/temporary_folder.hpp"

namespace gv {

/// The config of a small generated task whose peers train until they are told to stop. `extra` is
/// additional TOML.
std::string endless_config(const std::string& extra = "");

/// Checks `holds` every few milliseconds until it is true. Returns false if `limit` passes first.
bool eventually(const std::function<bool()>& holds, std::chrono::milliseconds limit);

/// The first complete ticket in a program's output; empty if there is none yet.
std::string ticket_in(const std::string& said);

/// All bytes of a file; empty if it cannot be opened.
std::string read_text(const std::filesystem::path& file);

/// Path of the program under test.
std::string grapevine_binary();

/// Runs the grapevine binary to its end and returns how it ended. Its output is written to
/// `output`.
Ending run_grapevine(const std::vector<std::string>& arguments, std::string& output,
                     std::chrono::milliseconds limit = std::chrono::seconds(60));

/// Settings for the start of one peer, with defaults.
struct StartOptions {
  std::vector<std::string> prefix;  ///< Words before the command, for example "ip netns exec NAME".
  std::string listen = "127.0.0.1:0";  ///< Empty means that the peer only dials out.
  std::vector<std::string> extra;      ///< Additional arguments.
  bool watched = false;                ///< Runs watched_peer.cpp instead of the binary itself.
};

/// Several peers of one run, each a process with its own key.
class Swarm {
 public:
  /// Makes keys for `peers` peers. `config` is TOML text. Starts nothing.
  Swarm(std::size_t peers, const std::string& config);

  /// Starts peer `number`. It joins the first other peer that runs and can be dialled.
  void start(std::size_t number, const StartOptions& options = {});

  /// Starts all peers that are not running.
  void start_all();

  void signal(std::size_t number, int signal);
  /// Kills the process and waits until it is gone.
  void kill(std::size_t number);
  bool is_running(std::size_t number);
  /// True while SIGSTOP holds the process.
  bool is_stopped(std::size_t number);
  /// The number of open descriptors of the process.
  std::size_t descriptors(std::size_t number);
  /// The numbers of the processors that at least one thread of the process may use.
  std::set<int> processors(std::size_t number);
  /// Waits for the process to end by itself. Throws on a timeout.
  Ending wait_for_end(std::size_t number, std::chrono::milliseconds limit);

  /// The newest status document; null if the peer does not answer.
  nlohmann::json status(std::size_t number);
  /// Peer `number`'s view of peer `other`: "alive", "suspect", "dead", "left" or "unknown".
  std::string state_of(std::size_t number, std::size_t other);
  std::uint64_t step(std::size_t number);
  /// Waits up to a minute until every peer in `numbers` has reached `step`. Returns false on a
  /// timeout.
  bool reach(const std::vector<std::size_t>& numbers, std::uint64_t step);
  /// Waits up to a minute until every peer in `numbers` is `steps` steps beyond the present step of
  /// the first peer. Returns false on a timeout.
  bool go_on(const std::vector<std::size_t>& numbers, std::uint64_t steps = 50);
  /// Waits up to half a minute until the peer completes more exchanges. Returns false on a timeout.
  bool exchanges_go_on(std::size_t number);

  /// The events with that name in the peer's log so far.
  std::vector<nlohmann::json> events(std::size_t number, const std::string& name);

  std::filesystem::path folder(std::size_t number) const;
  /// The file with the point that watched peers wait for, see watched_peer.cpp.
  std::filesystem::path point_file() const { return root_.path() / "point"; }
  std::filesystem::path config_file() const { return root_.path() / "config.toml"; }
  std::filesystem::path authorized_file() const { return root_.path() / "authorized_peers"; }
  /// Rewrites the allow-list with `change` applied to each line. A line that becomes empty is left
  /// out.
  void change_list(const std::function<std::string(const std::string&)>& change);
  /// The output of the process so far.
  std::string output(std::size_t number) const;
  static std::string name(std::size_t number) { return "peer-" + std::to_string(number); }

 private:
  struct Peer {
    KeyPair keys;
    std::unique_ptr<ChildProcess> process;
  };

  TemporaryFolder root_;
  std::vector<Peer> peers_;
};

}  // namespace gv
