// The grapevine binary, except that passes through the stages of a pipeline take a given time and
// compute nothing. The times are read from the environment: PASS_SECONDS="forward,backward by
// inputs,backward by weights". The file `runs` in the peer's folder gets a line for each run with
// its number and its time in seconds.
#include <fmt/format.h>
#include <sys/prctl.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <thread>

#include "cli/cli.hpp"
#include "peer/node/node.hpp"

namespace {

using Clock = std::chrono::steady_clock;

/// Waits for the given time. Sleeps for nearly all of it, so that many peers fit on a machine with
/// few processors, and watches the clock for the rest.
void pass_time(double seconds) {
  constexpr auto watched = std::chrono::microseconds(100);
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(seconds));
  std::this_thread::sleep_until(end - watched);
  while (Clock::now() < end) {
  }
}

}  // namespace

int main(int argc, char** argv) {
  double forward = 0;
  double input = 0;
  double weight = 0;
  const char* told = std::getenv("PASS_SECONDS");
  if (told == nullptr || std::sscanf(told, "%lf,%lf,%lf", &forward, &input, &weight) != 3) {
    fmt::print(stderr, "PASS_SECONDS=FORWARD,INPUTS,WEIGHTS has to be in the environment\n");
    return 2;
  }
  const auto stand_in = [=](const gv::PipelineInstruction& what) {
    thread_local const int slack = ::prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
    static_cast<void>(slack);
    switch (what.action) {
      case gv::PipelineAction::forward:
        return pass_time(forward);
      case gv::PipelineAction::backward:
        return pass_time(input + weight);
      case gv::PipelineAction::backward_input:
        return pass_time(input);
      case gv::PipelineAction::backward_weight:
        return pass_time(weight);
      case gv::PipelineAction::update:
        return;
    }
  };

  std::filesystem::path folder;
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::string_view(argv[i]) == "--folder") folder = argv[i + 1];
  }
  std::ofstream runs;
  std::uint64_t step = 0;
  const auto note = [&](const gv::Node& node, const gv::NodeEffects&) {
    if (node.mode().step() == step) return;
    step = node.mode().step();
    if (!runs.is_open()) runs.open(folder / "runs");
    const std::chrono::duration<double> now = Clock::now().time_since_epoch();
    runs << fmt::format("{} {:.6f}\n", step, now.count()) << std::flush;
  };
  return gv::run_command_line(argc, argv, {.watcher = note, .stand_in = stand_in});
}
