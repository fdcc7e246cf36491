// Runs randomly drawn worlds one after another until one fails.
#include "cli/swarm.hpp"

#include <fmt/format.h>
#include <sys/time.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>

#include "cli/simulate.hpp"
#include "sim/virtual/swarm.hpp"
#include "sim/virtual/trace.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

/// A world that uses more processor time than this counts as endless.
constexpr time_t processor_seconds_max = 120;

/// Requests a SIGPROF after this many seconds of processor time; 0 cancels the request.
void limit_processor(time_t at_most) {
  const itimerval limit{.it_interval = {}, .it_value = {.tv_sec = at_most, .tv_usec = 0}};
  ::setitimer(ITIMER_PROF, &limit, nullptr);
}

/// The running world's seed, for the handler of a failed check().
std::uint64_t running_seed = 0;
/// The flags that a replay needs in addition to the seed.
std::string replay_flags;

void say_crash(int) {
  char text[240];
  const int length = std::snprintf(
      text, sizeof text,
      "crash or no end in the world of seed %llu\ncommit %s; replay: grapevine sim --swarm 1 "
      "--seed %llu%s --trace\n",
      static_cast<unsigned long long>(running_seed), GRAPEVINE_COMMIT,
      static_cast<unsigned long long>(running_seed), replay_flags.c_str());
  if (length > 0)
    static_cast<void>(!::write(STDOUT_FILENO, text, static_cast<std::size_t>(length)));
  ::_exit(swarm_crashed);
}

/// Prints which invariant a world has broken. `replayed` has the arguments of `grapevine sim` that
/// run the world again, except the seed. Returns the exit code.
int say_failure(const DrawnWorld& world, const Violation& violation, const std::string& replayed,
                bool smallest) {
  fmt::print("{} in the world of seed {}: \"{}\" at {:.6f} s: {}\n",
             violation.liveness ? "stuck" : "broken", world.seed, violation.invariant,
             seconds(violation.at.time_since_epoch()), violation.what);
  fmt::print("commit {}; replay: grapevine sim {} --seed {} --trace\n", GRAPEVINE_COMMIT, replayed,
             world.seed);
  if (smallest) {
    const DrawnWorld small = shrink(world, is_legal, [&violation](const DrawnWorld& candidate) {
      const Verdict verdict = run_world(candidate);
      return verdict.violation && verdict.violation->invariant == violation.invariant;
    });
    fmt::print(
        "\nas small as it gets (write it to a file; run: grapevine sim FILE --check --seed {} "
        "--trace):\n\n{}",
        world.seed, to_toml(small));
  } else {
    fmt::print("\n{}", to_toml(world));
  }
  return violation.liveness ? swarm_stuck : swarm_unsafe;
}

}  // namespace

int check_world(const DrawnWorld& world, const std::string& config, bool trace) {
  Trace lines([](const std::string& line) { fmt::print("{}\n", line); });
  const Verdict verdict = run_world(world, trace ? &lines : nullptr);
  if (verdict.violation) return say_failure(world, *verdict.violation, config + " --check", false);
  fmt::print(
      "every invariant holds: {} events, {} faults, {} exchanges that cancel, {} operations in "
      "lockstep, {} runs of pipelines{}\ntrace hash {:016x}\n",
      verdict.events, verdict.fault_events, verdict.exchanges, verdict.operations, verdict.runs,
      verdict.stage_lost ? "; a stage was lost with all its carriers and its copy" : "",
      verdict.trace_hash);
  return 0;
}

int run_swarm(const SwarmOptions& options) {
  using Clock = std::chrono::steady_clock;
  const auto began = Clock::now();
  auto shown = began;
  std::signal(SIGABRT, say_crash);
  std::signal(SIGSEGV, say_crash);
  std::signal(SIGPROF, say_crash);
  Trace trace([](const std::string& line) { fmt::print("{}\n", line); });
  Verdict total;
  std::uint64_t stages_lost = 0;
  std::uint64_t hostile = 0;
  replay_flags.clear();
  for (const std::string& kind : options.kinds) replay_flags += " --kind " + kind;
  for (std::uint64_t i = 0; i < options.worlds; ++i) {
    running_seed = options.seed + i;
    const DrawnWorld world = draw_world(running_seed, options.kinds);
    if (options.trace) fmt::print("{}\n", to_toml(world));
    limit_processor(processor_seconds_max);
    const Verdict verdict = run_world(world, options.trace ? &trace : nullptr);
    limit_processor(0);
    total.events += verdict.events;
    total.exchanges += verdict.exchanges;
    total.halves += verdict.halves;
    total.operations += verdict.operations;
    total.runs += verdict.runs;
    total.ended += verdict.ended;
    stages_lost += verdict.stage_lost ? 1 : 0;
    hostile += verdict.hostile > 0 ? 1 : 0;
    total.fault_events += verdict.fault_events;
    total.trace_hash = hash_combine(total.trace_hash, verdict.trace_hash);
    if (verdict.violation) {
      return say_failure(world, *verdict.violation, "--swarm 1" + replay_flags, options.shrink);
    }
    if (Clock::now() - shown > 5s) {
      shown = Clock::now();
      fmt::print("{} of {} worlds\n", i + 1, options.worlds);
      std::fflush(stdout);
    }
  }
  std::signal(SIGABRT, SIG_DFL);
  std::signal(SIGSEGV, SIG_DFL);
  std::signal(SIGPROF, SIG_DFL);
  fmt::print(
      "{} worlds from seed {}, none failed: {} events, {} faults, {} exchanges that cancel, {} "
      "halves that a fault explains, {} operations in lockstep, {} runs of pipelines ({} "
      "worlds lost a stage with its copy), {} peers with a common mean, {} worlds with hostile "
      "peers, {:.1f} s\ntrace hash {:016x}\n",
      options.worlds, options.seed, total.events, total.fault_events, total.exchanges, total.halves,
      total.operations, total.runs, stages_lost, total.ended, hostile,
      std::chrono::duration<double>(Clock::now() - began).count(), total.trace_hash);
  return 0;
}

}  // namespace gv
