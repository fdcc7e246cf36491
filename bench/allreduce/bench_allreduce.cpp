// Starts the ranks, reads their times and prints the slowest rank's.
#include "bench/allreduce/bench_allreduce.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <thread>

#include "sim/local/addresses.hpp"
#include "sim/local/keys.hpp"
#include "sim/local/process.hpp"

namespace gv {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

/// Time between two checks of the ranks' output: long enough not to disturb the measurement.
constexpr auto look_period = std::chrono::milliseconds(50);
constexpr auto row_deadline = std::chrono::minutes(2);
constexpr auto last_generation_deadline = std::chrono::seconds(5);

constexpr std::array<std::string_view, 4> units = {"B", "KiB", "MiB", "GiB"};

/// A temporary folder that is removed together with this object.
class Scratch {
 public:
  Scratch() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "grapevine-bench-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) {
      throw std::runtime_error("no folder can be made at " + pattern);
    }
    path_ = pattern;
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// The `part` quantile (0 to 1) of the sorted values, interpolated linearly.
double quantile(const std::vector<double>& sorted, double part) {
  const double place = part * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

/// Combines all ranks' results for one size into one row.
Json combined(const std::vector<Json>& said) {
  const auto bytes = said.front().at("bytes").get<std::size_t>();
  const auto algorithm = said.front().at("algorithm").get<std::string>();
  auto slowest = said.front().at("seconds").get<std::vector<double>>();
  std::string lane;
  double sent_bytes = 0;
  double cpu_seconds = 0;
  for (const Json& rank : said) {
    const auto seconds = rank.at("seconds").get<std::vector<double>>();
    for (std::size_t i = 0; i < slowest.size(); ++i) {
      slowest[i] = std::max(slowest[i], seconds.at(i));
    }
    sent_bytes = std::max(sent_bytes, rank.at("sent_bytes").get<double>());
    cpu_seconds += rank.at("cpu_seconds").get<double>();
    lane = std::max(lane, rank.at("lane").get<std::string>());
  }
  std::vector<double> sorted = slowest;
  std::ranges::sort(sorted);
  const double median = quantile(sorted, 0.5);
  const ReduceCost cost =
      reduce_cost(algorithm_named(algorithm).value(), said.size(), bytes / sizeof(float));
  return {{"peers", said.size()},
          {"bytes", bytes},
          {"algorithm", algorithm},
          {"lane", lane},
          {"operations", slowest.size()},
          {"median_us", 1e6 * median},
          {"lower_quartile_us", 1e6 * quantile(sorted, 0.25)},
          {"upper_quartile_us", 1e6 * quantile(sorted, 0.75)},
          {"gigabytes_per_second", 1e-9 * static_cast<double>(bytes) / median},
          {"sent_bytes", sent_bytes},
          {"sent_bytes_by_formula", cost.sent_bytes},
          {"cpu_seconds", cpu_seconds},
          {"seconds", std::move(slowest)}};
}

void print_heading(const BenchAllreduceOptions& options) {
  fmt::print(
      "lanes {}, blocks of {}, {} processors; microseconds of the slowest rank, bytes sent\n"
      "by the busiest, processor time of all ranks\n\n",
      to_string(options.task.lane), bytes_text(options.task.segment_bytes),
      std::thread::hardware_concurrency());
  fmt::print("{:>5} {:>9} {:>16} {:>5} {:>5} {:>11} {:>11} {:>11} {:>8} {:>13} {:>13} {:>9}\n",
             "peers", "size", "algorithm", "lane", "times", "median us", "1st quart.", "3rd quart.",
             "GB/s", "bytes sent", "by formula", "cpu ms");
}

void print_row(const Json& row) {
  fmt::print(
      "{:>5} {:>9} {:>16} {:>5} {:>5} {:>11.1f} {:>11.1f} {:>11.1f} {:>8.3f} {:>13.0f} "
      "{:>13.0f} {:>9.3f}\n",
      row["peers"].get<std::size_t>(), bytes_text(row["bytes"].get<std::size_t>()),
      row["algorithm"].get<std::string>(), row["lane"].get<std::string>(),
      row["operations"].get<std::size_t>(), row["median_us"].get<double>(),
      row["lower_quartile_us"].get<double>(), row["upper_quartile_us"].get<double>(),
      row["gigabytes_per_second"].get<double>(), row["sent_bytes"].get<double>(),
      row["sent_bytes_by_formula"].get<double>(), 1e3 * row["cpu_seconds"].get<double>());
  std::fflush(stdout);
}

/// The processes of one measurement, one for each rank.
class Ranks {
 public:
  Ranks(const BenchAllreduceOptions& options, std::size_t peers);

  /// Prints a row for every size and appends it to `rows`.
  void run(Json& rows);

 private:
  struct Rank {
    PeerAddresses addresses;
    std::filesystem::path log;
    std::streamoff read = 0;  ///< Number of bytes of the log read so far.
    std::optional<ChildProcess> process;
    std::vector<Json> rows;
  };

  void start(std::size_t number);
  void read(Rank& rank) const;
  void take_rows(Json& rows);
  void check_alive();
  std::string words_of(const Rank& rank) const;
  void pause();
  void dismiss();

  BenchAllreduceOptions options_;
  // Declared before the ranks, because the folder must outlive the processes, which end when the
  // ranks are destroyed.
  Scratch folder_;
  asio::io_context io_;
  asio::signal_set signals_{io_, SIGINT, SIGTERM, SIGHUP};
  bool interrupted_ = false;
  std::deque<Rank> ranks_;
  std::size_t printed_ = 0;
};

Ranks::Ranks(const BenchAllreduceOptions& options, std::size_t peers) : options_(options) {
  signals_.async_wait([this](asio::error_code error, int) { interrupted_ = !error; });
  make_keys(folder_.path(), peers);
  for (std::size_t number = 0; number < peers; ++number) {
    ranks_.push_back({.addresses = PeerAddresses(io_, number, false),
                      .log = folder_.path() / peer_name(number) / "output.log"});
  }
  for (std::size_t number = 0; number < peers; ++number) start(number);
}

/// Starts the process of rank `number`, which dials all lower ranks.
void Ranks::start(std::size_t number) {
  const ReduceTask& task = options_.task;
  Rank& rank = ranks_[number];
  std::vector<std::string> command{options_.program.string(), "bench", "allreduce-rank",
                                   folder_.path().string(), std::to_string(number)};
  PeerArguments places;
  rank.addresses.set(places);
  command.insert(command.end(), {"--listen", places.host.listen, "--lane-port",
                                 std::to_string(places.host.lane_port)});
  for (std::size_t other = 0; other < number; ++other) {
    command.insert(command.end(),
                   {"--join", peer_name(other) + "@" + ranks_[other].addresses.advertised()});
  }
  std::string sizes;
  for (const std::size_t size : task.sizes) sizes += std::to_string(size) + ",";
  sizes.pop_back();
  command.insert(command.end(), {"--lane", std::string(to_string(task.lane))});
  if (task.algorithm) {
    command.insert(command.end(), {"--algorithm", std::string(to_string(*task.algorithm))});
  }
  command.insert(command.end(), {"--sizes", sizes, "--repeats", std::to_string(task.repeats),
                                 "--segment", std::to_string(task.segment_bytes)});
  rank.process.emplace(command, rank.log);
}

/// Reads the rank's output since the last call.
void Ranks::read(Rank& rank) const {
  std::ifstream in(rank.log);
  in.seekg(rank.read);
  for (std::string line; std::getline(in, line) && !in.eof();) {
    rank.read = in.tellg();
    Json row = Json::parse(line, nullptr, false);
    if (row.is_object()) rank.rows.push_back(std::move(row));
  }
}

/// The error messages of a failed rank.
std::string Ranks::words_of(const Rank& rank) const {
  std::ifstream in(rank.log);
  std::string words;
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with('{')) words += ": " + line;
  }
  return words;
}

void Ranks::take_rows(Json& rows) {
  for (; printed_ < options_.task.sizes.size(); ++printed_) {
    std::vector<Json> said;
    for (const Rank& rank : ranks_) {
      if (rank.rows.size() > printed_) said.push_back(rank.rows[printed_]);
    }
    if (said.size() < ranks_.size()) return;
    rows.push_back(combined(said));
    print_row(rows.back());
  }
}

void Ranks::check_alive() {
  if (interrupted_) throw std::runtime_error("interrupted");
  // The first failure makes the other ranks fail too. If a rank was killed by a signal, it is the
  // cause and is reported.
  std::optional<std::size_t> failed;
  for (std::size_t number = 0; number < ranks_.size(); ++number) {
    const auto ending = ranks_[number].process->ending();
    if (ending && (!failed || ending->signal != 0)) failed = number;
  }
  if (!failed) return;
  Rank& rank = ranks_[*failed];
  throw std::runtime_error(peer_name(*failed) + " ended (" + to_string(*rank.process->ending()) +
                           ")" + words_of(rank));
}

void Ranks::pause() {
  asio::steady_timer timer(io_, look_period);
  bool over = false;
  timer.async_wait([&over](asio::error_code) { over = true; });
  while (!over) io_.run_one();
}

void Ranks::run(Json& rows) {
  Clock::time_point last_row = Clock::now();
  while (printed_ < options_.task.sizes.size()) {
    pause();
    for (Rank& rank : ranks_) read(rank);
    const std::size_t before = printed_;
    take_rows(rows);
    if (printed_ == options_.task.sizes.size()) break;
    check_alive();
    if (printed_ > before) last_row = Clock::now();
    if (Clock::now() - last_row > row_deadline) {
      throw std::runtime_error(fmt::format("{} peers did not get on with {} in two minutes",
                                           ranks_.size(),
                                           bytes_text(options_.task.sizes[printed_])));
    }
  }
  dismiss();
}

/// Asks the ranks to end. A rank ends once no other rank needs it.
void Ranks::dismiss() {
  for (Rank& rank : ranks_) rank.process->signal(SIGTERM);
  const auto give_up = Clock::now() + last_generation_deadline;
  const auto runs = [](Rank& rank) { return !rank.process->ending(); };
  while (std::ranges::any_of(ranks_, runs) && Clock::now() < give_up) pause();
}

}  // namespace

std::string bytes_text(std::size_t bytes) {
  std::size_t unit = 0;
  while (bytes >= 1024 && bytes % 1024 == 0 && unit + 1 < units.size()) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", bytes, units[unit]);
}

std::optional<std::size_t> bytes_from_text(const std::string& text) {
  std::size_t number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc()) return std::nullopt;
  const std::string_view name(rest, static_cast<std::size_t>(end - rest));
  const auto unit = std::ranges::find(units, name.empty() ? units.front() : name);
  if (unit == units.end()) return std::nullopt;
  const auto shift = 10 * (unit - units.begin());
  if (number > std::numeric_limits<std::size_t>::max() >> shift) return std::nullopt;
  return number << shift;
}

int bench_allreduce(const BenchAllreduceOptions& options) {
  try {
    Json rows = Json::array();
    print_heading(options);
    for (const std::size_t peers : options.peers) Ranks(options, peers).run(rows);
    if (options.json.empty()) return 0;
    const Json document{{"lanes", to_string(options.task.lane)},
                        {"segment_bytes", options.task.segment_bytes},
                        {"processors", std::thread::hardware_concurrency()},
                        {"rows", std::move(rows)}};
    std::ofstream out(options.json);
    out << document.dump(1) << '\n';
    out.flush();
    if (!out) throw std::runtime_error(options.json.string() + " cannot be written");
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench: {}\n", error.what());
    return 1;
  }
}

}  // namespace gv
