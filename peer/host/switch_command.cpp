// Encodes the switch command as JSON, and carries it out on a node.
#include "peer/host/switch_command.hpp"

#include <nlohmann/json.hpp>

#include "peer/modes/mode.hpp"

namespace gv {

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
  return nlohmann::json{{"settings_revision", node.mode().revision_heard()}}.dump();
}

}  // namespace gv
