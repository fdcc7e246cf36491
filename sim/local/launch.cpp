// The launcher: starts peers, watches their status sockets, injects faults, prints the summary.
#include "sim/local/launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/printable.hpp"
#include "peer/config/refusal.hpp"
#include "peer/config/task.hpp"
#include "peer/host/folder_lock.hpp"
#include "peer/host/given_peer.hpp"
#include "peer/host/host.hpp"
#include "peer/host/peer_json.hpp"
#include "peer/host/peer_socket.hpp"
#include "peer/host/run_format.hpp"
#include "peer/host/swarm_start.hpp"
#include "sim/local/keys.hpp"
#include "sim/local/launched_peer.hpp"
#include "sim/local/process_group.hpp"
#include "sim/local/program_summary.hpp"
#include "sim/local/real_scenario.hpp"
#include "sim/local/summary.hpp"
#include "sim/local/table.hpp"
#include "sim/run_files.hpp"
#include "sim/run_folder.hpp"

namespace gv {
namespace {

using Clock = std::chrono::steady_clock;
using State = LaunchedPeer::State;

/// The file in a run's folder through which --resume finds the config: a link to it, or the text of
/// the built-in one.
constexpr const char* kept_config = "launched.toml";
/// The exit code that shells use for Ctrl-C.
constexpr int interrupted_code = 130;

/// Problems of the config and of its data, found before any peer starts. If the option -n was given
/// (`is_counted`), problems with the number of peers refer to it.
Problems problems_at_start(const RunFiles& files, bool is_counted) {
  Problems problems = problems_with_data(files.config);
  for (Problem& problem : problems) {
    if (problem.place == "run.peers" && is_counted) problem.place = "-n";
    // If the config does not set gossip.weigh, report the problem for its learning rate.
    if (problem.place == "gossip.weigh" && !files.places.lines.contains(problem.place)) {
      problem.place = "train.learning_rate";
    }
  }
  return files.places.placed(std::move(problems));
}

/// Takes the config and the number of peers from the run in the folder if the user has not given
/// them.
Problems complete_from_run(LaunchOptions& options) {
  if (options.folder.empty()) {
    return {{"--resume", "no folder with a run to go on with is named", "add --folder FOLDER"}};
  }
  if (options.peers == 0) {
    std::ifstream list(options.folder / "authorized_peers");
    for (std::string line; std::getline(list, line);) ++options.peers;
  }
  if (!options.config.empty()) return {};
  const std::filesystem::path kept = options.folder / kept_config;
  std::error_code error;
  if (std::filesystem::is_regular_file(kept, error)) {
    const auto config = std::filesystem::read_symlink(kept, error);
    options.config = (error ? kept : config).string();
    return {};
  }
  const bool was_run = has_checkpoints(options.folder / peer_name(0));
  if (!was_run && !std::filesystem::is_symlink(kept, error)) return {};
  return {{"CONFIG", "the config of the run in " + options.folder.string() + " cannot be found",
           "name the config of that run"}};
}

/// The number of peers that the config names.
std::size_t peers_of(const std::string& config) {
  return config.empty() ? default_config().run.peers : parse_config_file(config).config.run.peers;
}

/// Period of the message that the first peer has not started yet. The others need its address, but
/// it may have to read large data first.
constexpr auto waiting_line_period = std::chrono::seconds(30);
constexpr auto redraw_period = std::chrono::seconds(1);
/// How often the launcher checks whether all peers train. The scenario's clock starts once they do.
constexpr auto look_period = std::chrono::milliseconds(50);
constexpr auto status_limit = std::chrono::milliseconds(900);

bool is_clean(const Ending& ending) { return ending.signal == 0 && ending.exit_code == 0; }

/// The last line that a peer has printed, or "(it is empty)" if its log is empty.
std::string last_line_of(const std::filesystem::path& log) {
  constexpr std::streamoff bytes_max = 4096;
  std::ifstream file(log, std::ios::binary | std::ios::ate);
  if (!file) return {};
  const std::streamoff size = file.tellg();
  file.seekg(std::max(std::streamoff{0}, size - bytes_max));
  std::string last;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) last = line;
  }
  return last.empty() ? "(it is empty)" : printable(last);
}

class Launch {
 public:
  Launch(const LaunchOptions& options, Config config, std::optional<Scenario> scenario);

  int run();

 private:
  Problems prepare();
  void keep_config();
  PeerArguments arguments_for(std::size_t number, bool resume) const;
  void start_peer(std::size_t number, bool resume);
  void wait_for_address(LaunchedPeer& peer);
  void begin_scenario();
  void tick();
  void ask_all();
  void tell_interruption(const nlohmann::json& status);
  bool goes_on();
  void read_results();
  void draw();
  /// The signal that asks a peer to end. A user's program is interrupted as by Ctrl-C, so that it
  /// ends its loop and thereby its peer.
  int interrupt_signal() const { return options_.command.empty() ? SIGTERM : SIGINT; }
  void on_interrupt();
  void await_interrupts();
  void tell_failures(const std::vector<PeerOutcome>& outcomes) const;

  LaunchOptions options_;
  Config config_;
  std::optional<Scenario> scenario_;
  std::string config_path_;
  std::string config_text_;
  std::filesystem::path folder_;
  std::optional<FolderLock> lock_;
  asio::io_context io_;
  asio::steady_timer timer_{io_};
  asio::signal_set signals_{io_, SIGINT, SIGTERM, SIGPIPE};
  ProcessGroup group_;
  std::deque<LaunchedPeer> peers_;
  std::string first_address_;
  std::optional<RealScenario> faults_;  ///< Null if no faults are injected.
  Table table_;
  Clock::time_point began_ = Clock::now();
  std::optional<Clock::time_point> scenario_began_;
  /// Number of the collective with which work resumed after the last reported loss of peers.
  std::uint64_t told_operation_ = 0;
  int interrupts_ = 0;
  bool reader_is_gone_ = false;  ///< True if our output no longer has a reader.
  Clock::time_point interrupted_{};
};

Launch::Launch(const LaunchOptions& options, Config config, std::optional<Scenario> scenario)
    : options_(options),
      config_(std::move(config)),
      scenario_(std::move(scenario)),
      config_path_(options.config),
      config_text_(read_config_text(config_path_)) {}

/// Makes the run's folder ready. Returns a problem, and changes nothing, if another launcher uses
/// it.
Problems Launch::prepare() {
  folder_ = options_.folder.empty() ? new_run_folder(config_.run.folder) : options_.folder;
  lock_.emplace(folder_);
  if (lock_->is_taken()) {
    return {{folder_.string(),
             fmt::format("another launcher runs peers in this folder (pid {})", lock_->holder()),
             "name another folder with --folder, or end that run first"}};
  }
  // The results of an earlier run must not be mistaken for results of this run.
  for (const char* result : {"mean.safetensors", "models.svg", "summary.json"}) {
    std::error_code ignored;
    if (std::filesystem::is_regular_file(folder_ / result, ignored)) {
      std::filesystem::remove(folder_ / result, ignored);
    }
  }
  keep_config();
  make_keys(folder_, options_.peers);
  for (std::size_t number = 0; number < options_.peers; ++number) {
    const std::string name = peer_name(number);
    peers_.emplace_back(io_, group_.id(), name, folder_ / name,
                        scenario_ ? scenario_->speed_of(number) : 1.0);
  }
  if (!scenario_) return {};
  faults_.emplace(io_, *scenario_, config_.run.seed, peers_,
                  RealScenario::Calls{
                      .start = [this](std::size_t peer, bool resume) { start_peer(peer, resume); },
                      .tell = [this](const std::string& line) { table_.tell(line); }});
  return {};
}

/// Keeps the config in the run's folder for --resume. A config file is kept as a link, so that
/// relative paths in it still begin at the file's own folder.
void Launch::keep_config() {
  const std::filesystem::path kept = folder_ / kept_config;
  std::error_code ignored;
  if (config_path_.empty()) {
    std::filesystem::remove(kept, ignored);
    config_path_ = kept.string();
    std::ofstream(config_path_) << config_text_;
    return;
  }
  if (std::filesystem::equivalent(config_path_, kept, ignored)) return;
  std::filesystem::remove(kept, ignored);
  std::filesystem::create_symlink(std::filesystem::absolute(config_path_), kept, ignored);
}

PeerArguments Launch::arguments_for(std::size_t number, bool resume) const {
  const LaunchedPeer& peer = peers_[number];
  PeerArguments arguments{.key = (peer.folder() / "key").string(),
                          .authorized = (folder_ / "authorized_peers").string(),
                          .folder = peer.folder().string(),
                          .lane = {},
                          .shard = fmt::format("{}/{}", number, options_.peers)};
  HostOptions& host = arguments.host;
  host.config_path = config_path_;
  host.name = peer.name();
  host.resume = resume || options_.resume;
  // A peer that starts later finds the others already training, so it need not wait.
  host.wait_for = options_.peers;
  if (faults_) {
    host.wait_for = faults_->has_begun() ? 1 : faults_->starters();
    faults_->set_addresses(number, arguments);
    host.join = faults_->joins_for(number);
  } else {
    host.listen = "127.0.0.1:0";
    if (!first_address_.empty()) host.join = {first_address_};
  }
  return arguments;
}

void Launch::start_peer(std::size_t number, bool resume) {
  const PeerArguments arguments = arguments_for(number, resume);
  std::vector<std::string> words;
  if (options_.command.empty()) {
    words = command_line(arguments);
    words.insert(words.begin(), {options_.program.string(), "peer"});
  } else {
    words = options_.command;
    words.insert(words.begin(),
                 {"/usr/bin/env", std::string(given_variable) + "=" + given_text(arguments)});
  }
  peers_[number].start(words);
}

/// Waits until the first peer has an address, or until an interrupt.
void Launch::wait_for_address(LaunchedPeer& peer) {
  const std::filesystem::path log = peer.folder() / "output.log";
  auto next_line = Clock::now() + waiting_line_period;
  while (peer.state() == State::running) {
    if (const auto document = ask_peer(peer.folder())) {
      const nlohmann::json json = parse_peer_json<nlohmann::json>(*document);
      if (json.is_object() && json.contains("self")) {
        first_address_ = peer.name() + "@" + json["self"].value("advertised", "");
        return;
      }
    }
    if (interrupts_ > 0) return;
    if (Clock::now() >= next_line) {
      next_line += waiting_line_period;
      table_.tell(fmt::format("{} has not started its peer yet; its output is in {}", peer.name(),
                              log.string()));
    }
    io_.run_for(std::chrono::milliseconds(20));
  }
  if (interrupts_ > 0) return;
  const Ending ending = peer.ending().value_or(Ending{});
  std::string end = "did not start";
  if (!options_.command.empty()) {
    end = (ending.signal != 0 ? "was " : "ended with ") + to_string(ending) + " before it joined";
  }
  throw std::runtime_error(fmt::format("{} {}; the last line of {}: {}", peer.name(), end,
                                       log.string(), last_line_of(log)));
}

/// Starts the scenario's clock as soon as all initial peers train.
void Launch::begin_scenario() {
  for (LaunchedPeer& peer : peers_) {
    const bool begins = peer.state() == State::running;
    if (begins && peer.last.value("phase", "joining") == "joining") return;
  }
  scenario_began_ = Clock::now();
  faults_->begin();
}

void Launch::ask_all() {
  for (LaunchedPeer& peer : peers_) {
    if (peer.state() != State::running || peer.is_stopped()) continue;
    const std::size_t incarnation = peer.incarnations();
    ask_peer(io_, peer.folder(), {}, status_limit,
             [this, &peer, incarnation](const std::optional<std::string>& document) {
               if (!document || peer.incarnations() != incarnation) return;
               nlohmann::json json = parse_peer_json<nlohmann::json>(*document);
               if (!json.is_object()) return;
               peer.last = std::move(json);
               tell_interruption(peer.last);
             });
  }
}

/// Prints one line for each interruption by the loss of peers, as the first survivor reports it.
void Launch::tell_interruption(const nlohmann::json& status) {
  const auto part = std::ranges::find_if(status, [](const nlohmann::json& each) {
    return each.is_object() && each.contains("interruption");
  });
  if (part == status.end()) return;
  const std::string line = part->value("interruption", "");
  const std::uint64_t operation = part->value("resumed_at", 0ULL);
  if (line.empty() || operation <= told_operation_) return;
  told_operation_ = operation;
  table_.tell(line);
}

/// True while a peer trains, or while no peer has finished and a fault event will make a peer train
/// again.
bool Launch::goes_on() {
  bool trains = false;
  bool finished = false;
  bool is_running = false;
  for (LaunchedPeer& peer : peers_) {
    const bool runs = peer.state() == State::running;
    is_running = is_running || runs;
    trains = trains || (runs && !peer.is_stopped());
    finished = finished || (peer.state() == State::ended && is_clean(*peer.ending()));
  }
  if (trains) return true;
  if (!finished && faults_ && faults_->injector().will_revive()) return true;
  if (faults_) faults_->injector().cancel();
  // The remaining peers would stay stopped for ever, so wake them and let them end with the models
  // that they have.
  for (LaunchedPeer& peer : peers_) peer.end(SIGTERM);
  return is_running;
}

/// Takes the last state of each ended peer from its result, which is newer than its last answer.
void Launch::read_results() {
  for (LaunchedPeer& peer : peers_) {
    if (peer.state() != State::ended) continue;
    std::ifstream file(peer.folder() / "result.json");
    if (!file) continue;
    auto result = parse_peer_json<nlohmann::json>(file);
    if (result.is_object()) peer.last = std::move(result);
  }
}

void Launch::draw() {
  const Clock::time_point since = scenario_began_.value_or(began_);
  std::vector<PeerRow> rows;
  for (LaunchedPeer& peer : peers_) {
    PeerRow row{.name = peer.name(), .status = peer.last};
    row.trains = peer.state() == State::running && !peer.is_stopped();
    switch (peer.state()) {
      case State::absent:
        row.phase = "absent";
        break;
      case State::taken:
        row.phase = "down";
        break;
      case State::ended:
        row.phase = peer.ending()->signal != 0 ? "killed" : "ended";
        break;
      case State::running:
        row.phase = peer.is_stopped() ? "stopped" : peer.last.value("phase", "starting");
    }
    rows.push_back(std::move(row));
  }
  table_.draw(std::chrono::duration<double>(Clock::now() - since).count(), rows);
}

void Launch::tick() {
  if (!goes_on()) {
    read_results();
    draw();
    io_.stop();
    return;
  }
  const bool begins = faults_ && !faults_->has_begun();
  if (begins) begin_scenario();
  ask_all();
  if (!begins) draw();
  timer_.expires_after(begins ? Clock::duration(look_period) : Clock::duration(redraw_period));
  timer_.async_wait([this](asio::error_code error) {
    if (!error) tick();
  });
}

void Launch::on_interrupt() {
  if (interrupts_ > 0 && Clock::now() - interrupted_ < same_interrupt) return;
  ++interrupts_;
  interrupted_ = Clock::now();
  if (faults_) faults_->injector().cancel();
  for (LaunchedPeer& peer : peers_) peer.end(interrupts_ > 1 ? SIGKILL : interrupt_signal());
  table_.tell(interrupts_ > 1 ? "stopping the peers at once"
              : options_.command.empty()
                  ? "the peers leave with a checkpoint; once more to stop at once"
                  : "the programs are interrupted; once more to stop at once");
}

void Launch::await_interrupts() {
  signals_.async_wait([this](asio::error_code error, int signal) {
    if (error) return;
    if (signal != SIGPIPE) {
      on_interrupt();
    } else if (!std::exchange(reader_is_gone_, true)) {
      // Discards everything printed from now on.
      const std::FILE* nowhere = std::freopen("/dev/null", "w", stdout);
      static_cast<void>(nowhere);
      on_interrupt();
    }
    await_interrupts();
  });
}

/// Prints how each failed peer ended, its last line of output, and where to find the rest.
void Launch::tell_failures(const std::vector<PeerOutcome>& outcomes) const {
  for (const PeerOutcome& outcome : outcomes) {
    if (!outcome.by_fault.empty() || is_clean(outcome.ending)) continue;
    const std::filesystem::path log = outcome.folder / "output.log";
    say(stderr, fmt::format("{}: {}; the last line of {}: {}\n", outcome.name,
                            to_string(outcome.ending), log.string(), last_line_of(log)));
  }
}

int Launch::run() {
  if (const Problems problems = prepare(); !problems.empty()) return fail(problems);
  const bool was_run = std::ranges::any_of(
      peers_, [](const LaunchedPeer& peer) { return has_checkpoints(peer.folder()); });
  if (options_.resume && !was_run) {
    say(stdout, fmt::format("no run to go on with is in {}; a new one begins\n", folder_.string()));
  }
  say(stdout,
      fmt::format("{} peers train {}; everything they write is below {}\n", options_.peers,
                  mode_names()[static_cast<std::size_t>(config_.run.mode)].way, folder_.string()));
  await_interrupts();
  for (std::size_t number = 0; number < options_.peers && interrupts_ == 0; ++number) {
    if (faults_ && faults_->injector().joins_late(number)) continue;
    start_peer(number, options_.resume);
    if (first_address_.empty()) wait_for_address(peers_[number]);
  }
  tick();
  io_.run();
  // The loop no longer handles signals, so let SIGINT and SIGTERM end the evaluation by default.
  // SIGPIPE stays caught, so that the evaluation goes on if the reader of our output is gone.
  signals_.remove(SIGINT);
  signals_.remove(SIGTERM);

  const double wall = std::chrono::duration<double>(Clock::now() - began_).count();
  std::vector<PeerOutcome> outcomes;
  const bool is_program = !options_.command.empty();
  bool clean = true;
  bool has_model = false;
  for (LaunchedPeer& peer : peers_) {
    Ending ending = peer.ending().value_or(Ending{});
    std::string by_fault;
    bool has_begun = peer.state() != State::absent;
    if (!has_begun) by_fault = "never joined";
    // The signal of an interrupt kills a peer that does not handle it yet or no longer does.
    if (peer.state() == State::ended && interrupts_ > 0 && ending.signal == interrupt_signal()) {
      const bool has_result = std::filesystem::exists(peer.folder() / "result.json");
      // A user's program that has answered and left no result was cut off in its training.
      has_begun = has_result || (is_program && !peer.last.empty());
      if (has_result) ending = {};
      if (!has_begun) by_fault = "stopped before it began";
    }
    has_model = has_model || (has_begun && (is_program || has_checkpoints(peer.folder())));
    if (peer.state() == State::taken) {
      by_fault = ending.signal != 0 ? "killed by a fault" : "left by a fault";
    }
    clean = clean && (!by_fault.empty() || is_clean(ending));
    outcomes.push_back({.name = peer.name(),
                        .folder = peer.folder(),
                        .ending = ending,
                        .by_fault = by_fault,
                        .untold_bytes = peer.untold_bytes()});
  }
  tell_failures(outcomes);
  std::optional<FaultReport> report;
  if (faults_) report = faults_->report();
  if (interrupts_ > 0 && !has_model && clean) {
    say(stdout, "stopped before training began\n");
    return interrupted_code;
  }
  if (is_program) {
    print_program_summary(folder_, outcomes, report, wall);
    return clean ? 0 : 1;
  }
  const bool evaluated = print_summary(config_, config_text_, folder_, outcomes, report, wall);
  return clean && evaluated ? 0 : 1;
}

}  // namespace

int launch(LaunchOptions options) {
  const bool is_counted = options.peers > 0;
  if (options.resume) {
    if (const Problems missing = complete_from_run(options); !missing.empty()) return fail(missing);
  }
  if (options.peers == 0) options.peers = peers_of(options.config);
  if (options.peers > launched_peers_max) {
    return fail({{"run.peers", fmt::format("{} peers are too many for one machine", options.peers),
                  fmt::format("write -n and at most {}", launched_peers_max)}});
  }
  RunFiles files = read_run_files(options.config, options.faults, options.peers);
  Problems& problems = files.problems;
  Scenario& rules = files.scenario;
  const std::string& place = options.faults.empty() ? options.config : options.faults;
  const auto add = [&problems](Problems more) {
    std::ranges::move(more, std::back_inserter(problems));
  };
  add(problems_on_processes(rules, options.peers, files.config.network.lane, place));
  add(neighbours_problems(files, options.config));
  if (problems.empty()) problems = switch_problems(files, place);
  // A user's program has a model and data of its own.
  if (problems.empty() && options.command.empty()) {
    problems = problems_at_start(files, is_counted);
  }
  for (std::size_t number = 0; options.resume && number < options.peers; ++number) {
    add(run_format_problems(options.folder / peer_name(number)));
  }
  if (problems.empty()) problems = problems_with_folder(options.folder, files.config.run.folder);
  if (!problems.empty()) return fail(problems);
  draw_rules(rules, options.peers, files.config.run.seed);
  const bool concerns_us = !rules.speeds.empty() || !rules.links.empty() || !rules.faults.empty();
  try {
    return Launch(options, std::move(files.config),
                  concerns_us ? std::optional(rules) : std::nullopt)
        .run();
  } catch (const std::exception& error) {
    say(stderr, fmt::format("launch: {}\n", error.what()));
    return 1;
  }
}

}  // namespace gv
