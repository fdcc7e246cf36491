// Starts a peer from its arguments, its folder and its config.
#include "peer/host/host.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "net/host_address.hpp"
#include "peer/config/refusal.hpp"
#include "peer/config/switched_mixing.hpp"
#include "peer/config/switched_mode.hpp"
#include "peer/config/task.hpp"
#include "peer/host/folder_lock.hpp"
#include "peer/host/network_options.hpp"
#include "peer/host/rendezvous.hpp"
#include "peer/host/run_format.hpp"
#include "peer/host/running_host.hpp"
#include "peer/host/settings_revision_file.hpp"
#include "peer/modes/switchable_mode.hpp"

namespace gv {
namespace {

/// Makes a resumed peer keep its settings revision and run in the revision's mode.
Problems begin_with_revision(const HostOptions& options, Config& config,
                             SettingsRevision& revision) {
  if (config.run.mode == ModeKind::pipeline || !options.resume) return {};
  Problem problem{.place = (options.folder / "settings_revision").string(),
                  .remedy = "remove the file, and the peer goes by its config"};
  const std::optional<SettingsRevision> kept = read_revision(options.folder);
  if (!kept) {
    problem.reason = "is damaged, so what the swarm had switched to is not known";
    return {problem};
  }
  if (kept->number == 0) return {};
  // A revision that changes only settings of mixing does not set the mode.
  const bool is_of_mode = kept->number >> algorithm_bits > 0;
  SwitchedConfig next{.config = config, .problems = {}};
  if (is_of_mode) next = switched_config(config, kept->settings, options.has_buffers);
  Problems problems = std::move(next.problems);
  const bool mixes = next.config.run.mode == ModeKind::mixing;
  if (problems.empty() && mixes) {
    SwitchedMixing switched = switched_mixing(config, kept->settings, options.has_buffers);
    problems = std::move(switched.problems);
    next.config.mixing.rule = std::move(switched.rule);
  }
  if (!problems.empty()) {
    problem.reason = to_string(problems.front());
    return {problem};
  }
  if (!is_of_mode && !mixes) return {};
  revision = *kept;
  config = std::move(next.config);
  return {};
}

/// Prints why the peer ended.
void say_end(const HostOptions& options, const std::exception& error) {
  const std::string line = fmt::format("{}: {}", options.name, error.what());
  if (options.guest_says) {
    options.guest_says(line);
  } else {
    say(stderr, line + "\n");
  }
}

/// Ends the process with the exit code of a peer that has left. Calls only what a signal handler
/// may call.
void leave_before_training(int) {
  constexpr std::string_view line = "ended: left on request before training began\n";
  // If the reader has gone away, the line is lost.
  [[maybe_unused]] const auto written = ::write(STDOUT_FILENO, line.data(), line.size());
  ::_exit(0);
}

/// Makes SIGINT and SIGTERM end the peer cleanly while it still reads its data, because it then has
/// no work that could get lost. SIGHUP waits until the peer can read its allow-list again.
/// Host::run replaces these handlers.
void handle_early_signals() {
  std::signal(SIGINT, leave_before_training);
  std::signal(SIGTERM, leave_before_training);
  hold_hangups(true);
}

/// Creates the run's folder. Returns a problem if nothing can be written there.
Problems make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error && ::access(folder.c_str(), W_OK) != 0) error.assign(errno, std::generic_category());
  if (!error) return {};
  return {{folder.string(), "cannot be written to: " + error.message(), "choose another --folder"}};
}

/// Moves the models of an earlier run in this folder aside, so that they are not mistaken for
/// models of the new run.
Problems set_aside_models(const HostOptions& options) {
  std::vector<std::filesystem::path> earlier;
  if (std::filesystem::is_directory(options.folder / "checkpoints")) {
    earlier.emplace_back("checkpoints");
  }
  if (std::filesystem::is_regular_file(options.folder / "final.safetensors")) {
    earlier.emplace_back("final.safetensors");
  }
  if (earlier.empty()) return {};
  std::filesystem::path aside;
  for (int number = 1; aside.empty() || std::filesystem::exists(aside); ++number) {
    aside = options.folder / fmt::format("earlier-{}", number);
  }
  std::error_code error;
  std::filesystem::create_directory(aside, error);
  for (const std::filesystem::path& name : earlier) {
    if (!error) std::filesystem::rename(options.folder / name, aside / name, error);
  }
  if (error) {
    return {{options.folder.string(),
             "has models of an earlier run, which cannot be moved aside: " + error.message(),
             "begin in another --folder, or go on with that run by --resume"}};
  }
  if (!options.guest_says) {
    say(stderr, fmt::format("{}: the models of an earlier run are now in {}\n", options.name,
                            aside.string()));
  }
  return {};
}

/// Prints the problems, and returns the exit code for them.
int refuse(const HostOptions& options, const Problems& problems) {
  if (!options.guest_says) return fail(problems);
  for (const Problem& problem : problems) options.guest_says(to_string(problem));
  return 2;
}

}  // namespace

void hold_hangups(bool are_held) {
  ::sigset_t hangups;
  ::sigemptyset(&hangups);
  ::sigaddset(&hangups, SIGHUP);
  ::pthread_sigmask(are_held ? SIG_BLOCK : SIG_UNBLOCK, &hangups, nullptr);
}

Problems Host::take_over_folder(bool is_new_run) const {
  if (is_new_run) {
    if (Problems problems = set_aside_models(options_); !problems.empty()) return problems;
  }
  if (Problems problems = write_run_format(options_.folder); !problems.empty()) return problems;
  if (!options_.resume && !write_revision(options_.folder, {})) {
    return {{(options_.folder / "settings_revision").string(),
             "is of an earlier run and cannot be removed",
             "remove the file, and the peer goes by its config"}};
  }
  // The result of an earlier run must not be mistaken for this run's if this peer is killed.
  std::error_code ignored;
  std::filesystem::remove(options_.folder / "result.json", ignored);
  return {};
}

int run_peer(const HostOptions& options) { return run_peer(options, nullptr); }

int run_peer(const HostOptions& options, std::unique_ptr<Learner> learner) {
  if (!options.guest_says) {
    handle_early_signals();
    keep_small_memory(options.config.run.mode);
  }
  if (const Problems problems = take_descriptors(); !problems.empty()) {
    return refuse(options, problems);
  }
  if (options.cohort) {
    if (const Problems problems = open_rendezvous(options.cohort->rendezvous); !problems.empty()) {
      return refuse(options, problems);
    }
  }
  try {
    if (const Problems problems = make_folder(options.folder); !problems.empty()) {
      return refuse(options, problems);
    }
    const FolderLock lock(options.folder);
    if (lock.is_taken()) {
      return refuse(options,
                    {{options.folder.string(),
                      fmt::format("another peer runs in this folder (pid {})", lock.holder()),
                      "give each peer a folder of its own with --folder, or end that one first"}});
    }
    if (options.resume) {
      const Problems problems = run_format_problems(options.folder);
      if (!problems.empty()) return refuse(options, problems);
    }
    Config config = options.config;
    SettingsRevision revision;
    if (const Problems problems = begin_with_revision(options, config, revision);
        !problems.empty()) {
      return refuse(options, problems);
    }
    Task task =
        learner ? task_of(config, *learner, options.all_samples) : load_task(config, options.shard);
    if (!task.problems.empty())
      return refuse(options, options.places.placed(std::move(task.problems)));
    return Host(options, std::move(task), std::move(revision)).run(std::move(learner));
  } catch (const PortTaken& error) {
    say_end(options, error);
    return 2;
  } catch (const std::exception& error) {
    say_end(options, error);
    return 1;
  }
}

}  // namespace gv
