// Texts of configs, with the problems that they give.
#pragma once

#include <catch2/catch.hpp>
#include <string>

#include "peer/config/config.hpp"

namespace gv {

/// All problems as lines, for messages and searches.
inline std::string lines(const Problems& problems) {
  std::string text;
  for (const Problem& problem : problems) text += to_string(problem) + "\n";
  return text;
}

inline Problems problems_of(const std::string& text) {
  return parse_config_text(text, "a.toml").problems;
}

/// The config of a text that must be sound.
inline Config sound(const std::string& text) {
  ParsedConfig parsed = parse_config_text(text, "a.toml");
  INFO(lines(parsed.problems));
  REQUIRE(parsed.problems.empty());
  return parsed.config;
}

/// The one problem of a text.
inline Problem only_problem(const std::string& text) {
  const Problems problems = problems_of(text);
  INFO(lines(problems));
  REQUIRE(problems.size() == 1);
  return problems.front();
}

}  // namespace gv
