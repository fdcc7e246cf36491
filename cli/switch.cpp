// `grapevine switch`: switches a running swarm to another mode or algorithm, and waits until all
// peers use it.
#include <fmt/format.h>
#include <poll.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "peer/config/algorithms.hpp"
#include "peer/config/config_settings.hpp"
#include "peer/config/old_names.hpp"
#include "peer/config/refusal.hpp"
#include "peer/config/switched_mode.hpp"
#include "peer/host/peer_socket.hpp"
#include "peer/host/switch_command.hpp"

namespace gv {
namespace {

/// Arguments of `grapevine switch`.
struct SwitchArguments {
  std::filesystem::path folder;  ///< The folder of any peer of the swarm.
  std::string goal;  ///< A mode or an algorithm. Empty means that only `settings` change.
  std::vector<std::string> settings;  ///< Settings such as "mixing.gamma=0.2".
  double wait_s = 20;                 ///< How many seconds to wait until all peers agree.
};

constexpr int look_again_ms = 100;

/// Turns "mixing.topology=ring" into a line of a config. Strings need no quotes, because a shell
/// would remove them.
std::string line_of(const std::string& setting) {
  const auto at = setting.find('=');
  std::string value = setting.substr(at + 1);
  const bool is_word = !value.empty() && std::isalpha(static_cast<unsigned char>(value[0])) != 0 &&
                       value != "true" && value != "false";
  if (is_word) value = fmt::format("\"{}\"", value);
  return fmt::format("{} = {}\n", setting.substr(0, at), value);
}

/// Says why a swarm cannot switch to the mode or algorithm `goal`. Empty if it can.
Problems problems_of_goal(const std::string& goal) {
  std::vector<std::string> names;
  std::string modes;
  for (const ModeName& mode : mode_names()) {
    names.emplace_back(mode.name);
    modes += (modes.empty() ? "" : ", ") + names.back();
  }
  for (const NamedAlgorithm& algorithm : named_algorithms()) names.emplace_back(algorithm.name);
  if (std::ranges::find(names, goal) != names.end()) return {};
  const auto nearest = nearest_name(goal, names);
  return {{goal, "no such mode or algorithm",
           fmt::format("{}the modes are {}; `grapevine algorithms` lists the rest",
                       nearest ? "the nearest is " + *nearest + "; " : "", modes)}};
}

/// Says why there is no setting `key`.
Problems problems_of_key(const std::string& key) {
  std::vector<std::string> paths;
  std::string with_section;
  for (const Setting<Config>& setting : config_settings()) {
    paths.push_back(setting.path());
    if (paths.back() == key) return {};
    const bool is_of_mode = std::ranges::any_of(
        mode_names(), [&](const ModeName& mode) { return setting.section.starts_with(mode.name); });
    if (setting.key == key && is_of_mode) {
      with_section += (with_section.empty() ? "write " : " or ") + paths.back();
    }
  }
  // If the key has an old name, the peer's answer tells the user the new name.
  if (renamed(key)) return {};
  return {{key, "no such setting", with_section.empty() ? near_remedy(key, paths) : with_section}};
}

/// The answer of a swarm that was asked to switch.
struct Answered {
  std::string line;
  int exit_code = 0;
};

/// The peer's report on this settings revision, once its swarm uses or refuses the revision.
std::optional<Answered> answered(const std::filesystem::path& folder, std::uint64_t number) {
  const auto document = ask_peer(folder);
  const auto state = nlohmann::json::parse(document.value_or(""), nullptr, false);
  if (!state.is_object()) return std::nullopt;
  const auto part = [&state](const char* name) {
    return state.contains(name) ? state.at(name) : nlohmann::json::object();
  };
  const nlohmann::json switched = part("switch");
  if (switched.value("refused_revision", std::uint64_t{0}) >= number) {
    return Answered{"the swarm does not switch: " + switched.value("refused", ""), 2};
  }
  if (switched.value("settings_revision", std::uint64_t{0}) >= number) {
    return Answered{fmt::format(
        "{} peers have switched to mode {} at step {}", switched.value("together", std::size_t{0}),
        switched.value("mode", ""), switched.value("since", std::uint64_t{0}))};
  }
  const nlohmann::json rounds = part("mixing");
  if (rounds.value("settings_revision", std::uint64_t{0}) < number) return std::nullopt;
  return Answered{fmt::format("{} peers go by it since step {}: {} on {}",
                              rounds.value("together", std::size_t{0}),
                              rounds.value("settings_since", std::uint64_t{0}),
                              rounds.value("kind", ""), rounds.value("topology", ""))};
}

/// Sends the settings to the peer and waits until its swarm uses them. Returns the exit code: 0 for
/// success, 1 if the swarm takes too long, 2 if the switch is impossible.
int switch_swarm(const SwitchArguments& arguments) {
  std::string settings;
  if (!arguments.goal.empty()) {
    if (const Problems none = problems_of_goal(arguments.goal); !none.empty()) return fail(none);
    settings = settings_of(arguments.goal);
  }
  for (const std::string& setting : arguments.settings) {
    const std::size_t at = setting.find('=');
    if (at == std::string::npos) {
      return fail(
          {{setting, "not a setting", "write mixing.KEY=VALUE, or another section of the mode"}});
    }
    if (const Problems none = problems_of_key(setting.substr(0, at)); !none.empty()) {
      return fail(none);
    }
    settings += line_of(setting);
  }
  if (settings.empty()) {
    return fail({{"switch", "nothing to switch to", "name a mode or an algorithm, or give --set"}});
  }
  const auto reply = ask_peer(arguments.folder, switch_command_text(settings));
  const auto answer = nlohmann::json::parse(reply.value_or(""), nullptr, false);
  if (!answer.is_object()) return fail({no_answer_problem(arguments.folder)});
  if (answer.contains("problem")) {
    fmt::print(stderr, "{}\n", answer.at("problem").get<std::string>());
    return 2;
  }
  const auto number = answer.value("settings_revision", std::uint64_t{0});
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(arguments.wait_s);
  while (std::chrono::steady_clock::now() < end) {
    if (const auto said = answered(arguments.folder, number)) {
      fmt::print(said->exit_code == 0 ? stdout : stderr, "{}\n", said->line);
      return said->exit_code;
    }
    ::poll(nullptr, 0, look_again_ms);
  }
  fmt::print(stderr,
             "the peer was told, but its swarm has not agreed within {:g} s; `grapevine status {}` "
             "shows what it goes by\n",
             arguments.wait_s, arguments.folder.string());
  return 1;
}

}  // namespace

void add_switch(CLI::App& app) {
  const auto arguments = std::make_shared<SwitchArguments>();
  auto* command = app.add_subcommand(
      "switch", "Make a running swarm work in another mode, or mix by another algorithm");
  command->add_option("FOLDER", arguments->folder, "The run folder of any of its peers")
      ->required();
  command->add_option("MODE_OR_ALGORITHM", arguments->goal,
                      "gossip, allreduce or mixing, or an algorithm that `grapevine algorithms` "
                      "lists");
  command
      ->add_option("--set", arguments->settings,
                   "A setting of that mode, as mixing.gamma=0.2; may be given several times")
      ->allow_extra_args(false);
  command->add_option("--wait", arguments->wait_s, "Seconds to wait until the swarm has agreed")
      ->check(number_from(0.0, 3600.0))
      ->capture_default_str();
  command->footer(
      "All peers begin with it at one step that they agree on. Between modes they first become the "
      "mean\nof their models. A pipeline cannot switch.\n"
      "Examples:\n  grapevine switch runs/run-001/peer-0 allreduce\n"
      "  grapevine switch runs/run-001/peer-0 choco --set mixing.codec_fraction=0.05");
  command->callback([arguments] { exit_with(switch_swarm(*arguments)); });
}

}  // namespace gv
