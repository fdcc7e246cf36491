// Explains by name what the program reports: events, reasons for refusal and exit codes.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gv {

/// All texts about one thing that the program reports.
struct Explanation {
  std::string kind;      ///< "event", "reason" or "exit code".
  std::string name;      ///< Unique among all kinds, for example `busy` or `exit-2`.
  std::string sentence;  ///< What happened. Values are placeholders in braces, such as `{peer}`.
  std::string meaning;   ///< What it means for the run, and what the other peers do.
  std::string remedy;    ///< What to do, in complete sentences; empty if nothing has to be done.
};

/// All explanations: events, then reasons, then exit codes.
const std::vector<Explanation>& explanations();

/// The explanation with that name, in any spelling: "Not ready" and "not-ready" find `not_ready`;
/// "exit 2" and "2" find `exit-2`. Null if there is none.
const Explanation* find_explanation(std::string_view name);

/// The names that contain `name`. If there are none, the three names closest to it in edit
/// distance.
std::vector<std::string> near_explanations(std::string_view name);

/// The explanation as several lines of text.
std::string to_text(const Explanation& explanation);

/// One line for each explanation, grouped by kind.
std::string explanations_table();

/// A JSON array of the explanations.
std::string to_json(std::span<const Explanation> all);

}  // namespace gv
