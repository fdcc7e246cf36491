// Commands to running peers.
#include "peer/switch_command.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <cctype>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>

#include "peer/peer_socket.hpp"
#include "peer/switched_rounds.hpp"

namespace gv {
namespace {

constexpr int look_again_ms = 100;

int fail(const Problem& problem) {
  fmt::print(stderr, "{}\n", to_string(problem));
  return 2;
}

/// "rounds.topology=ring" as a line of a config. Words need no quotes, which shells take away.
std::string line_of(const std::string& setting) {
  const auto at = setting.find('=');
  std::string value = setting.substr(at + 1);
  const bool is_word = !value.empty() && std::isalpha(static_cast<unsigned char>(value[0])) != 0 &&
                       value != "true" && value != "false";
  if (is_word) value = fmt::format("\"{}\"", value);
  return fmt::format("{} = {}\n", setting.substr(0, at), value);
}

/// The rounds in the peer's state, once it goes by the ruling of that number.
std::optional<nlohmann::json> ruled(const std::filesystem::path& folder, std::uint64_t number) {
  const auto document = ask_peer(folder);
  const auto state = nlohmann::json::parse(document.value_or(""), nullptr, false);
  if (!state.is_object() || !state.contains("rounds")) return std::nullopt;
  nlohmann::json rounds = state.at("rounds");
  if (rounds.value("ruling", std::uint64_t{0}) < number) return std::nullopt;
  return rounds;
}

}  // namespace

std::string switch_command_text(const std::string& settings) {
  return nlohmann::json{{"switch", settings}}.dump();
}

std::string answer_command(const std::string& command, Node& node, Time now, NodeEffects& out) {
  const auto asked = nlohmann::json::parse(command, nullptr, false);
  if (!asked.is_object() || !asked.contains("switch") || !asked.at("switch").is_string()) {
    return nlohmann::json{{"problem", "no command that this peer knows"}}.dump();
  }
  const Problems problems = node.switch_to(now, asked.at("switch").get<std::string>(), out);
  if (!problems.empty()) {
    return nlohmann::json{{"problem", to_string(problems.front())}}.dump();
  }
  return nlohmann::json{{"ruling", node.epochs()->agreement().ruling().number}}.dump();
}

int switch_command(const SwitchArguments& arguments) {
  std::string settings;
  if (!arguments.algorithm.empty()) settings = ruling_settings(arguments.algorithm);
  for (const std::string& setting : arguments.settings) {
    if (setting.find('=') == std::string::npos) {
      return fail({setting, "not a setting", "write rounds.KEY=VALUE"});
    }
    settings += line_of(setting);
  }
  if (settings.empty()) {
    return fail({"switch", "nothing to switch to", "name an algorithm, or give --set"});
  }
  const auto reply = ask_peer(arguments.folder, switch_command_text(settings));
  const auto answer = nlohmann::json::parse(reply.value_or(""), nullptr, false);
  if (!answer.is_object()) {
    return fail({arguments.folder.string(), "no running peer answers here",
                 "give the run folder of a running peer, the one its first line names"});
  }
  if (answer.contains("problem")) {
    fmt::print(stderr, "{}\n", answer.at("problem").get<std::string>());
    return 2;
  }
  const auto number = answer.value("ruling", std::uint64_t{0});
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(arguments.wait_s);
  while (std::chrono::steady_clock::now() < end) {
    if (const auto rounds = ruled(arguments.folder, number)) {
      fmt::print("{} peers go by it since step {}: {} on {}\n",
                 rounds->value("together", std::size_t{0}),
                 rounds->value("ruled_since", std::uint64_t{0}), rounds->value("kind", ""),
                 rounds->value("topology", ""));
      return 0;
    }
    ::poll(nullptr, 0, look_again_ms);
  }
  fmt::print(stderr,
             "the peer was told, but its swarm has not agreed within {:g} s; `grapevine status {}` "
             "shows what it goes by\n",
             arguments.wait_s, arguments.folder.string());
  return 1;
}

}  // namespace gv
