// The grapevine binary, except that each peer's steps take a given time. The peer sleeps for most
// of that time, so that many peers fit on a machine with few processors. The times are read from
// the environment, by shard number: STEP_SECONDS="0.005,0.005,0.02". The file `began` in the peer's
// folder holds the start of the peer's first step in seconds since 1970.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "cli/cli.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

/// The command-line argument that follows `word`.
std::string_view argument(int argc, char** argv, std::string_view word) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (argv[i] == word) return argv[i + 1];
  }
  return {};
}

/// Makes steps take the given time. The learner sleeps before a step, so that the result is ready
/// at the end of the step, as on a slow processor.
class Pace {
 public:
  Pace(double step, std::filesystem::path began) : step_(step), began_(std::move(began)) {}

  void operator()(std::uint64_t steps, const std::function<void()>& make) {
    const auto begins = Clock::now();
    if (!begun_) {
      begun_ = true;
      const Seconds now = std::chrono::system_clock::now().time_since_epoch();
      std::ofstream(began_) << fmt::format("{:.6f}\n", now.count());
    }
    const auto count = static_cast<double>(steps);
    const double idle = count * (step_ - needed_) - late_;
    if (idle > 0) std::this_thread::sleep_for(Seconds(idle));
    const auto works = Clock::now();
    make();
    const auto ends = Clock::now();
    const double needed = Seconds(ends - works).count() / count;
    needed_ = needed_ == 0 ? needed : needed_ + 0.1 * (needed - needed_);
    // A peer that is late catches up, but by at most the time of one call.
    late_ = std::min(late_ + Seconds(ends - begins).count() - count * step_, count * step_);
  }

 private:
  double step_;
  std::filesystem::path began_;
  bool begun_ = false;
  double needed_ = 0;  ///< Recent average of the seconds that a step really needs.
  double late_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const std::string shard(argument(argc, argv, "--shard"));
  if (shard.empty()) return gv::run_command_line(argc, argv);
  std::vector<double> steps;
  std::istringstream told(std::getenv("STEP_SECONDS") == nullptr ? ""
                                                                 : std::getenv("STEP_SECONDS"));
  for (std::string one; std::getline(told, one, ',');) steps.push_back(std::atof(one.c_str()));
  const auto number = static_cast<std::size_t>(std::atoi(shard.c_str()));
  if (number >= steps.size()) {
    fmt::print(stderr, "STEP_SECONDS needs a number for each shard, separated by commas\n");
    return 2;
  }
  const std::filesystem::path folder(argument(argc, argv, "--folder"));
  return gv::run_command_line(argc, argv, {.pace = Pace(steps[number], folder / "began")});
}
