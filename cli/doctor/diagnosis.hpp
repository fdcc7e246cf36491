// The lines of `grapevine doctor`, and how they are printed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/names.hpp"
#include "base/problems.hpp"

namespace gv {

/// `warning`: the peer works, but worse than it could. `error`: it does not start or does not
/// train.
enum class Health { ok, warning, error };
inline constexpr auto health_names = names_of<Health>({"ok", "warning", "error"});

/// The result of one check.
struct Diagnosis {
  std::string check;  ///< The check's name, which the table of checks fills in.
  Health health = Health::ok;
  std::string text;    ///< The finding, with figures.
  std::string remedy;  ///< The command or change that fixes the problem; empty if there is none.
};

using Diagnoses = std::vector<Diagnosis>;

/// Turns each problem into an error. If there are no problems, returns one ok line with the text
/// `sound`.
Diagnoses diagnoses_of(const Problems& problems, std::string_view sound);

/// One line for each diagnosis, then a line that counts the ok lines, warnings and errors.
std::string to_text(const Diagnoses& diagnoses);

/// Returns {"healthy": no error, "lines": [{"check", "health", "text", "remedy"}, ...]}.
std::string to_json(const Diagnoses& diagnoses);

/// Returns 0, or 1 if there is an error.
int exit_code_of(const Diagnoses& diagnoses);

}  // namespace gv
