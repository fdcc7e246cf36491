// Gathers the texts of events, reasons and exit codes, and finds them by name.
#include "cli/explanations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/exit_codes.hpp"
#include "peer/config/toml.hpp"
#include "peer/node/facts.hpp"
#include "peer/node/reasons.hpp"

namespace gv {
namespace {

constexpr std::size_t near_max = 3;
/// The shortest text that is searched for inside names. Shorter texts occur in too many names.
constexpr std::size_t contained_min = 3;

/// The text as a complete sentence. Some remedies are written to follow a semicolon.
std::string as_sentence(std::string_view text) {
  std::string whole(text);
  if (whole.empty()) return whole;
  whole.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(whole.front())));
  if (whole.back() != '.') whole += '.';
  return whole;
}

std::vector<Explanation> gather() {
  std::vector<Explanation> all;
  const auto add = [&](std::string_view kind, std::string name, const auto& info) {
    all.push_back({.kind = std::string(kind),
                   .name = std::move(name),
                   .sentence = std::string(info.sentence),
                   .meaning = as_sentence(info.meaning),
                   .remedy = as_sentence(info.remedy)});
  };
  for (const FactInfo& info : fact_infos()) add("event", std::string(info.name), info);
  for (const ReasonInfo& info : reason_infos()) add("reason", std::string(info.name), info);
  for (const ExitCodeInfo& info : exit_code_infos()) {
    add("exit code", fmt::format("exit-{}", info.code), info);
  }
  return all;
}

/// The spelling used for comparing names: lower case, with one underscore between words.
std::string plain_name(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0) {
      plain += static_cast<char>(std::tolower(byte));
    } else if (!plain.empty() && plain.back() != '_') {
      plain += '_';
    }
  }
  while (!plain.empty() && plain.back() == '_') plain.pop_back();
  const bool is_number = !plain.empty() && std::ranges::all_of(plain, [](unsigned char c) {
    return std::isdigit(c) != 0;
  });
  for (const std::string_view before : {"exit_code_", "code_"}) {
    if (plain.starts_with(before)) return "exit_" + plain.substr(before.size());
  }
  return is_number ? "exit_" + plain : plain;
}

}  // namespace

const std::vector<Explanation>& explanations() {
  static const std::vector<Explanation> all = gather();
  return all;
}

const Explanation* find_explanation(std::string_view name) {
  const std::string wanted = plain_name(name);
  const auto found = std::ranges::find_if(
      explanations(), [&](const Explanation& known) { return plain_name(known.name) == wanted; });
  return found == explanations().end() ? nullptr : &*found;
}

std::vector<std::string> near_explanations(std::string_view name) {
  const std::string wanted = plain_name(name);
  std::vector<std::string> near;
  std::vector<std::pair<std::size_t, std::string>> by_edits;
  for (const Explanation& known : explanations()) {
    const std::string plain = plain_name(known.name);
    if (wanted.size() >= contained_min && plain.find(wanted) != std::string::npos) {
      near.push_back(known.name);
    }
    by_edits.emplace_back(edit_distance(wanted, plain), known.name);
  }
  if (!near.empty()) return near;
  std::ranges::sort(by_edits);
  for (std::size_t i = 0; i < std::min(near_max, by_edits.size()); ++i) {
    near.push_back(by_edits[i].second);
  }
  return near;
}

std::string to_text(const Explanation& explanation) {
  return fmt::format("{} ({})\n  {}\nmeaning\n  {}\nwhat to do\n  {}\n", explanation.name,
                     explanation.kind, explanation.sentence, explanation.meaning,
                     explanation.remedy.empty() ? "Nothing has to be done." : explanation.remedy);
}

std::string explanations_table() {
  std::string text;
  std::string_view kind;
  for (const Explanation& known : explanations()) {
    if (known.kind != kind) {
      text += fmt::format("{}{}s\n", kind.empty() ? "" : "\n", known.kind);
      kind = known.kind;
    }
    text += fmt::format("  {:<29} {}\n", known.name, known.sentence);
  }
  return text + "\nwords in braces stand for values; `grapevine explain NAME` says more\n";
}

std::string to_json(std::span<const Explanation> all) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Explanation& known : all) {
    list.push_back({{"kind", known.kind},
                    {"name", known.name},
                    {"sentence", known.sentence},
                    {"meaning", known.meaning},
                    {"remedy", known.remedy}});
  }
  return list.dump(2) + "\n";
}

}  // namespace gv
