// Prints the lines of `grapevine doctor` as text or as JSON.
#include "cli/doctor/diagnosis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/counted.hpp"
#include "base/printable.hpp"
#include "cli/exit_codes.hpp"

namespace gv {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view indent = "                        ";

std::size_t count_of(const Diagnoses& diagnoses, Health health) {
  return static_cast<std::size_t>(std::ranges::count(diagnoses, health, &Diagnosis::health));
}

}  // namespace

Diagnoses diagnoses_of(const Problems& problems, std::string_view sound) {
  Diagnoses found;
  for (const Problem& problem : problems) {
    found.push_back({.health = Health::error,
                     .text = problem.place + ": " + problem.reason,
                     .remedy = problem.remedy});
  }
  if (found.empty()) found.push_back({.text = std::string(sound)});
  return found;
}

std::string to_text(const Diagnoses& diagnoses) {
  std::string text;
  for (const Diagnosis& one : diagnoses) {
    text +=
        fmt::format("{:<8} {:<14} {}\n", health_names[one.health], one.check, printable(one.text));
    if (!one.remedy.empty()) text += fmt::format("{}{}\n", indent, printable(one.remedy));
  }
  return text + fmt::format("\n{} ok, {}, {}\n", count_of(diagnoses, Health::ok),
                            counted(count_of(diagnoses, Health::warning), "warning"),
                            counted(count_of(diagnoses, Health::error), "error"));
}

std::string to_json(const Diagnoses& diagnoses) {
  Json lines = Json::array();
  for (const Diagnosis& one : diagnoses) {
    lines.push_back({{"check", one.check},
                     {"health", health_names[one.health]},
                     {"text", printable(one.text)},
                     {"remedy", printable(one.remedy)}});
  }
  const Json document = {{"healthy", exit_code_of(diagnoses) == exit_clean}, {"lines", lines}};
  // A path may contain bytes that are not valid UTF-8.
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

int exit_code_of(const Diagnoses& diagnoses) {
  return count_of(diagnoses, Health::error) > 0 ? exit_failed : exit_clean;
}

}  // namespace gv
