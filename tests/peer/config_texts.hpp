// Parses config texts for tests.
#pragma once

#include <catch2/catch.hpp>
#include <cstddef>
#include <string>
#include <vector>

#include "peer/config/config.hpp"
#include "peer/config/config_settings.hpp"

namespace gv {

/// All problems, one on each line.
inline std::string lines(const Problems& problems) {
  std::string text;
  for (const Problem& problem : problems) text += to_string(problem) + "\n";
  return text;
}

inline Problems problems_of(const std::string& text) {
  return parse_config_text(text, "a.toml").problems;
}

/// The config in a text that must have no problems.
inline Config sound(const std::string& text) {
  ParsedConfig parsed = parse_config_text(text, "a.toml");
  INFO(lines(parsed.problems));
  REQUIRE(parsed.problems.empty());
  return parsed.config;
}

/// The problem of a text that must have exactly one.
inline Problem only_problem(const std::string& text) {
  const Problems problems = problems_of(text);
  INFO(lines(problems));
  REQUIRE(problems.size() == 1);
  return problems.front();
}

/// The default config with a different value for this setting.
inline Config with_another(const Setting<Config>& setting) {
  std::vector<std::string> values{"true",      "false", "7",           "0.25",
                                  "\"seven\"", "[7]",   "[\"seven\"]", "{ seven = 1 }"};
  for (std::size_t at = 0; (at = setting.type.find('"', at)) != std::string::npos;) {
    const std::size_t end = setting.type.find('"', at + 1);
    values.push_back(setting.type.substr(at, end + 1 - at));
    at = end + 1;
  }
  Config config;
  for (const std::string& value : values) {
    Problems problems;
    const TomlTable table = read_toml("value = " + value, "v", problems);
    Config changed;
    if (!setting.read(table.at("value"), changed) && setting.show(changed) != setting.show({})) {
      config = changed;
    }
  }
  return config;
}

}  // namespace gv
