// Explains by name what the program reports: events, reasons of refusals and exit codes.
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
  std::string sentence;  ///< What happened; values are in braces, for example `{peer}`.
  std::string meaning;   ///< Whole sentences: what it says about the run, and what the other peers
                         ///< do.
  std::string remedy;    ///< Whole sentences: what to do; empty if nothing has to be done.
};

/// All explanations: events, then reasons, then exit codes.
const std::vector<Explanation>& explanations();

/// The explanation with that name, in any spelling: "Not ready" and "not-ready" are `not_ready`;
/// "exit 2" and "2" are `exit-2`. Null if there is none.
const Explanation* find_explanation(std::string_view name);

/// The names that contain `name` or, if there are none, the three that differ from it by the fewest
/// edits.
std::vector<std::string> near_explanations(std::string_view name);

/// Several lines for people.
std::string to_text(const Explanation& explanation);

/// One line for each explanation, in groups.
std::string explanations_table();

/// A JSON array of the explanations.
std::string to_json(std::span<const Explanation> all);

}  // namespace gv
