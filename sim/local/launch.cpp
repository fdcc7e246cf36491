// The launcher: starts one process per peer, watches them through their status sockets, sums up.
#include "sim/local/launch.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

#include "net/identity.hpp"
#include "peer/config.hpp"
#include "peer/host.hpp"
#include "peer/status.hpp"
#include "peer/task.hpp"
#include "sim/local/process.hpp"
#include "sim/local/summary.hpp"

namespace gv {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

/// The first peer must be up before the others can be told where it is.
constexpr auto start_deadline = std::chrono::seconds(60);
constexpr auto redraw_period = std::chrono::seconds(1);
/// Without a terminal a line this often is enough.
constexpr int plain_lines_every = 5;

struct LaunchedPeer {
  std::string name;
  std::filesystem::path folder;
  ChildProcess process;
  Json last = Json::object();  ///< The newest status document.
};

class Launch {
 public:
  Launch(const LaunchOptions& options, Config config, std::string config_path);

  int run();

 private:
  void prepare();
  void start_peer(std::size_t number, const std::string& join);
  std::string wait_for_address(LaunchedPeer& peer);
  void tick();
  void draw();
  bool poll();

  LaunchOptions options_;
  Config config_;
  std::string config_path_;
  std::string config_text_;
  std::filesystem::path folder_;
  asio::io_context io_;
  asio::steady_timer timer_{io_};
  asio::signal_set signals_{io_, SIGINT, SIGTERM};
  std::vector<LaunchedPeer> peers_;
  Clock::time_point began_ = Clock::now();
  bool terminal_ = ::isatty(STDOUT_FILENO) != 0;
  int lines_drawn_ = 0;
  int ticks_ = 0;
  int interrupts_ = 0;
  Clock::time_point interrupted_{};
};

/// A folder below `base` that does not exist yet: base/run-001, run-002, ...
std::filesystem::path new_run_folder(const std::filesystem::path& base) {
  for (int number = 1; number < 100000; ++number) {
    auto folder = base / fmt::format("run-{:03}", number);
    std::error_code ignored;
    std::filesystem::create_directories(base, ignored);
    std::error_code error;
    if (std::filesystem::create_directory(folder, error)) return folder;
    if (error) throw std::runtime_error(folder.string() + ": " + error.message());
  }
  throw std::runtime_error(base.string() + ": too many runs; delete old ones");
}

Launch::Launch(const LaunchOptions& options, Config config, std::string config_path)
    : options_(options),
      config_(std::move(config)),
      config_path_(std::move(config_path)),
      config_text_(read_config_text(config_path_)) {}

void Launch::prepare() {
  folder_ = options_.folder.empty() ? new_run_folder(config_.run.folder) : options_.folder;
  std::filesystem::create_directories(folder_);
  if (config_path_.empty()) {
    config_path_ = (folder_ / "config.toml").string();
    std::ofstream(config_path_) << config_text_;
  }
  std::string allow_list;
  for (std::size_t number = 0; number < options_.peers; ++number) {
    const std::string name = fmt::format("peer-{}", number);
    const auto folder = folder_ / name;
    std::filesystem::create_directories(folder);
    KeyPair pair;
    if (std::filesystem::exists(folder / "key")) {
      LoadedKeyPair loaded = load_key_pair(folder / "key");
      if (!loaded.problems.empty()) throw std::runtime_error(to_string(loaded.problems.front()));
      pair = loaded.pair;
    } else {
      pair = generate_key_pair();
      const Problems problems = save_key_pair(folder / "key", pair);
      if (!problems.empty()) throw std::runtime_error(to_string(problems.front()));
    }
    allow_list += name + " " + to_text(pair.public_key) + "\n";
  }
  std::ofstream(folder_ / "authorized_peers") << allow_list;
}

void Launch::start_peer(std::size_t number, const std::string& join) {
  const std::string name = fmt::format("peer-{}", number);
  const auto folder = folder_ / name;
  std::vector<std::string> arguments = {options_.program.string(),
                                        "peer",
                                        config_path_,
                                        "--name",
                                        name,
                                        "--folder",
                                        folder.string(),
                                        "--key",
                                        (folder / "key").string(),
                                        "--authorized",
                                        (folder_ / "authorized_peers").string(),
                                        "--listen",
                                        "127.0.0.1:0",
                                        "--shard",
                                        fmt::format("{}/{}", number, options_.peers),
                                        "--wait-for",
                                        std::to_string(options_.peers)};
  if (!join.empty()) arguments.insert(arguments.end(), {"--join", join});
  if (options_.resume) arguments.emplace_back("--resume");
  peers_.push_back(LaunchedPeer{name, folder, ChildProcess(arguments, folder / "output.log")});
}

std::string Launch::wait_for_address(LaunchedPeer& peer) {
  // Bounded by the deadline; the peer's own end is noticed at once.
  const auto give_up = Clock::now() + start_deadline;
  while (Clock::now() < give_up && !peer.process.ending()) {
    if (const auto document = ask_status(peer.folder)) {
      const Json json = Json::parse(*document, nullptr, false);
      if (json.is_object() && json.contains("self")) {
        return peer.name + "@" + json["self"].value("advertised", "");
      }
    }
    asio::steady_timer pause(io_, std::chrono::milliseconds(20));
    pause.wait();
  }
  throw std::runtime_error(fmt::format("{} did not start; its words are in {}", peer.name,
                                       (peer.folder / "output.log").string()));
}

bool Launch::poll() {
  bool running = false;
  for (LaunchedPeer& peer : peers_) {
    if (!peer.process.ending()) {
      running = true;
      if (const auto document = ask_status(peer.folder, 200)) {
        Json json = Json::parse(*document, nullptr, false);
        if (json.is_object()) peer.last = std::move(json);
      }
    }
  }
  return running;
}

void Launch::draw() {
  const double elapsed = std::chrono::duration<double>(Clock::now() - began_).count();
  double samples_per_second = 0;
  std::uint64_t exchanges = 0;
  std::uint64_t bytes = 0;
  for (LaunchedPeer& peer : peers_) {
    if (!peer.process.ending()) samples_per_second += peer.last.value("samples_per_second", 0.0);
    const Json counts = peer.last.value("exchanges", Json::object());
    exchanges += counts.value("committed", 0ULL);
    bytes += peer.last.value("bytes", Json::object()).value("lanes_sent", 0ULL);
  }
  if (!terminal_) {
    if (ticks_ % plain_lines_every != 0) return;
    std::string line =
        fmt::format("{:6.0f} s  {:.0f} samples/s  exchanges {}  {:.1f} MB", elapsed,
                    samples_per_second, exchanges / 2, static_cast<double>(bytes) / 1e6);
    for (LaunchedPeer& peer : peers_) {
      line += fmt::format("  |  {} {} {}/{} loss {:.3f}", peer.name,
                          peer.process.ending() ? "ended" : peer.last.value("phase", "starting"),
                          peer.last.value("step", 0ULL), peer.last.value("steps", 0ULL),
                          peer.last.value("loss", 0.0));
    }
    fmt::print("{}\n", line);
    std::fflush(stdout);
    return;
  }
  std::string text;
  if (lines_drawn_ > 0) text += fmt::format("\x1b[{}A", lines_drawn_);
  text += fmt::format("\x1b[K{:.0f} s   {:.0f} samples/s in all   {} exchanges   {:.1f} MB sent\n",
                      elapsed, samples_per_second, exchanges / 2, static_cast<double>(bytes) / 1e6);
  text += fmt::format("\x1b[K{:<10} {:<9} {:>15} {:>10} {:>8} {:>9} {:>9} {:>9} {:>8}\n", "peer",
                      "phase", "step", "samples/s", "loss", "accuracy", "exchanges", "refused",
                      "spread");
  for (LaunchedPeer& peer : peers_) {
    const auto ending = peer.process.ending();
    const Json counts = peer.last.value("exchanges", Json::object());
    text += fmt::format(
        "\x1b[K{:<10} {:<9} {:>15} {:>10.0f} {:>8.4f} {:>7.1f} % {:>9} {:>9} {:>8.3g}\n", peer.name,
        ending ? (ending->signal != 0 ? "killed" : "ended") : peer.last.value("phase", "starting"),
        fmt::format("{}/{}", peer.last.value("step", 0ULL), peer.last.value("steps", 0ULL)),
        ending ? 0.0 : peer.last.value("samples_per_second", 0.0), peer.last.value("loss", 0.0),
        100 * peer.last.value("accuracy", 0.0), counts.value("committed", 0ULL),
        counts.value("refused", 0ULL), peer.last.value("spread", 0.0));
  }
  lines_drawn_ = static_cast<int>(peers_.size()) + 2;
  fmt::print("{}", text);
  std::fflush(stdout);
}

void Launch::tick() {
  const bool running = poll();
  draw();
  ++ticks_;
  if (!running) {
    io_.stop();
    return;
  }
  timer_.expires_after(redraw_period);
  timer_.async_wait([this](asio::error_code error) {
    if (!error) tick();
  });
}

int Launch::run() {
  prepare();
  fmt::print("{} peers train by gossip; everything they write is below {}\n", options_.peers,
             folder_.string());
  std::fflush(stdout);
  start_peer(0, "");
  const std::string first = wait_for_address(peers_.front());
  for (std::size_t number = 1; number < options_.peers; ++number) start_peer(number, first);

  const auto on_signal = [this](auto&& self) -> void {
    signals_.async_wait([this, self](asio::error_code error, int) {
      if (error) return;
      if (interrupts_ > 0 && Clock::now() - interrupted_ < same_interrupt) {
        self(self);
        return;
      }
      ++interrupts_;
      interrupted_ = Clock::now();
      for (LaunchedPeer& peer : peers_) peer.process.signal(interrupts_ > 1 ? SIGKILL : SIGTERM);
      fmt::print("{}\n", interrupts_ > 1 ? "stopping the peers at once"
                                         : "the peers leave with a checkpoint; once more to stop "
                                           "at once");
      lines_drawn_ = 0;
      self(self);
    });
  };
  on_signal(on_signal);
  tick();
  io_.run();

  const double wall = std::chrono::duration<double>(Clock::now() - began_).count();
  std::vector<PeerOutcome> outcomes;
  bool clean = true;
  for (LaunchedPeer& peer : peers_) {
    const Ending ending = peer.process.ending().value_or(Ending{});
    clean = clean && ending.signal == 0 && ending.exit_code == 0;
    outcomes.push_back({.name = peer.name, .folder = peer.folder, .ending = ending});
  }
  const bool evaluated = print_summary(config_, config_text_, folder_, outcomes, wall);
  return clean && evaluated ? 0 : 1;
}

}  // namespace

int launch(const LaunchOptions& options) {
  ParsedConfig parsed;
  if (options.config.empty()) {
    parsed.config = default_config();
  } else {
    parsed = parse_config_file(options.config);
  }
  if (!parsed.problems.empty()) {
    for (const Problem& problem : parsed.problems) fmt::print(stderr, "{}\n", to_string(problem));
    return 2;
  }
  parsed.config.run.peers = options.peers;
  try {
    return Launch(options, std::move(parsed.config), options.config).run();
  } catch (const std::exception& error) {
    fmt::print(stderr, "launch: {}\n", error.what());
    return 1;
  }
}

}  // namespace gv
