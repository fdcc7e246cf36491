// Starts, signals and queries real peers.
#include "tests/process/swarm.hpp"

#include <sched.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <csignal>
#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>

#include "peer/host/peer_socket.hpp"

namespace gv {
namespace {

constexpr auto look_every = std::chrono::milliseconds(5);

}  // namespace

std::string endless_config(const std::string& extra) {
  return R"([run]
steps = 100000000
[data]
kind = "generated"
[data.generated]
samples = 4000
test_samples = 500
[model]
kind = "mlp"
hidden = [32]
[train]
batch = 32
[gossip]
period_steps = 64
[checkpoint]
every_steps = 0
)" + extra;
}

bool eventually(const std::function<bool()>& holds, std::chrono::milliseconds limit) {
  asio::io_context io;
  const auto give_up = std::chrono::steady_clock::now() + limit;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    asio::steady_timer(io, look_every).wait();
  }
  return true;
}

std::string read_text(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string ticket_in(const std::string& said) {
  const std::size_t at = said.find("gv1_");
  const std::size_t end = said.find('\n', at);
  const bool is_whole = at != std::string::npos && end != std::string::npos;
  return is_whole ? said.substr(at, end - at) : std::string();
}

std::string grapevine_binary() { return GRAPEVINE_BINARY; }

Ending run_grapevine(const std::vector<std::string>& arguments, std::string& output,
                     std::chrono::milliseconds limit) {
  const TemporaryFolder folder;
  std::vector<std::string> command = {GRAPEVINE_BINARY};
  command.insert(command.end(), arguments.begin(), arguments.end());
  ChildProcess process(command, folder.path() / "output");
  const bool ended = eventually([&] { return process.ending().has_value(); }, limit);
  output = read_text(folder.path() / "output");
  if (!ended) throw std::runtime_error("grapevine did not end in time; it printed: " + output);
  return *process.ending();
}

Swarm::Swarm(std::size_t peers, const std::string& config) {
  std::ofstream(config_file()) << config;
  std::ofstream allow_list(authorized_file());
  for (std::size_t number = 0; number < peers; ++number) {
    std::filesystem::create_directories(folder(number));
    Peer peer{.keys = generate_key_pair(), .process = nullptr};
    if (!save_key_pair(folder(number) / "key", peer.keys).empty()) {
      throw std::runtime_error("cannot write a key");
    }
    allow_list << name(number) << ' ' << to_text(peer.keys.public_key) << '\n';
    peers_.push_back(std::move(peer));
  }
}

void Swarm::change_list(const std::function<std::string(const std::string&)>& change) {
  std::istringstream lines(read_text(authorized_file()));
  std::ofstream list(authorized_file());
  for (std::string line; std::getline(lines, line);) {
    const std::string changed = change(line);
    if (!changed.empty()) list << changed << '\n';
  }
}

std::filesystem::path Swarm::folder(std::size_t number) const {
  return root_.path() / name(number);
}

void Swarm::start(std::size_t number, const StartOptions& options) {
  std::vector<std::string> command = options.prefix;
  const std::vector<std::string> usual = {
      options.watched ? WATCHED_PEER_BINARY : GRAPEVINE_BINARY,
      "peer",
      config_file().string(),
      "--name",
      name(number),
      "--folder",
      folder(number).string(),
      "--key",
      (folder(number) / "key").string(),
      "--authorized",
      authorized_file().string(),
      "--shard",
      std::to_string(number) + "/" + std::to_string(peers_.size())};
  command.insert(command.end(), usual.begin(), usual.end());
  if (!options.listen.empty()) command.insert(command.end(), {"--listen", options.listen});
  for (std::size_t other = 0; other < peers_.size(); ++other) {
    if (other == number || !is_running(other)) continue;
    const nlohmann::json up = status(other);
    const std::string address = up.is_null() ? "" : up["self"].value("advertised", "");
    if (address.empty()) continue;
    command.insert(command.end(), {"--join", name(other) + "@" + address});
    break;
  }
  command.insert(command.end(), options.extra.begin(), options.extra.end());
  peers_[number].process = std::make_unique<ChildProcess>(command, folder(number) / "output.log");
  if (!eventually([&] { return !status(number).is_null() || !is_running(number); },
                  std::chrono::seconds(30))) {
    throw std::runtime_error("a peer did not come up: " + output(number));
  }
}

void Swarm::start_all() {
  const std::string wait_for = std::to_string(peers_.size());
  for (std::size_t number = 0; number < peers_.size(); ++number) {
    if (!is_running(number)) start(number, {.extra = {"--wait-for", wait_for}});
  }
}

void Swarm::signal(std::size_t number, int signal) { peers_[number].process->signal(signal); }

void Swarm::kill(std::size_t number) {
  signal(number, SIGKILL);
  // No process survives SIGKILL, but a machine with a busy disk may take long to end it.
  wait_for_end(number, std::chrono::seconds(60));
}

bool Swarm::is_running(std::size_t number) {
  return peers_[number].process && !peers_[number].process->ending();
}

bool Swarm::is_stopped(std::size_t number) {
  const std::string state =
      read_text("/proc/" + std::to_string(peers_[number].process->pid()) + "/stat");
  const auto name_end = state.rfind(')');
  return name_end != std::string::npos && state.substr(name_end, 3) == ") T";
}

std::size_t Swarm::descriptors(std::size_t number) {
  const auto open = "/proc/" + std::to_string(peers_[number].process->pid()) + "/fd";
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(open),
                                                std::filesystem::directory_iterator()));
}

std::set<int> Swarm::processors(std::size_t number) {
  std::set<int> found;
  std::error_code gone;
  const auto threads = "/proc/" + std::to_string(peers_[number].process->pid()) + "/task";
  for (const auto& thread : std::filesystem::directory_iterator(threads, gone)) {
    cpu_set_t allowed;
    const pid_t id = std::stoi(thread.path().filename().string());
    if (::sched_getaffinity(id, sizeof allowed, &allowed) != 0) continue;
    for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
      if (CPU_ISSET(processor, &allowed)) found.insert(processor);
    }
  }
  return found;
}

Ending Swarm::wait_for_end(std::size_t number, std::chrono::milliseconds limit) {
  if (!eventually([&] { return !is_running(number); }, limit)) {
    throw std::runtime_error(name(number) + " did not end in time: " + output(number));
  }
  return *peers_[number].process->ending();
}

nlohmann::json Swarm::status(std::size_t number) {
  const auto document = ask_peer(folder(number), {}, 500);
  if (!document) return nullptr;
  nlohmann::json json = nlohmann::json::parse(*document, nullptr, false);
  return json.is_object() ? json : nlohmann::json(nullptr);
}

std::string Swarm::state_of(std::size_t number, std::size_t other) {
  const nlohmann::json document = status(number);
  if (document.is_null()) return "unknown";
  for (const auto& member : document["members"]) {
    if (member.value("name", "") == name(other)) return member.value("state", "unknown");
  }
  return "unknown";
}

std::uint64_t Swarm::step(std::size_t number) {
  const nlohmann::json document = status(number);
  return document.is_null() ? 0 : document.value("step", 0ULL);
}

bool Swarm::reach(const std::vector<std::size_t>& numbers, std::uint64_t wanted) {
  return eventually(
      [&] {
        return std::ranges::all_of(numbers,
                                   [&](std::size_t number) { return step(number) >= wanted; });
      },
      std::chrono::seconds(60));
}

bool Swarm::go_on(const std::vector<std::size_t>& numbers, std::uint64_t steps) {
  return reach(numbers, step(numbers.front()) + steps);
}

bool Swarm::exchanges_go_on(std::size_t number) {
  const auto committed = [&] {
    const nlohmann::json document = status(number);
    return document.is_null() ? 0 : document["exchanges"].value("committed", 0ULL);
  };
  const std::uint64_t before = committed();
  return eventually([&] { return committed() > before + 5; }, std::chrono::seconds(30));
}

std::vector<nlohmann::json> Swarm::events(std::size_t number, const std::string& name) {
  std::vector<nlohmann::json> found;
  std::ifstream in(folder(number) / "events.jsonl");
  for (std::string line; std::getline(in, line);) {
    nlohmann::json event = nlohmann::json::parse(line, nullptr, false);
    if (event.is_object() && event.value("event", "") == name) found.push_back(std::move(event));
  }
  return found;
}

std::string Swarm::output(std::size_t number) const {
  return read_text(folder(number) / "output.log");
}

}  // namespace gv
