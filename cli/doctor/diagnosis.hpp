// The lines of `grapevine doctor`, and how they are printed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/names.hpp"
#include "base/problems.hpp"

namespace gv {

/// `warning`: a peer works, but worse than it could. `error`: it does not start or does not train.
enum class Health { ok, warning, error };
inline constexpr auto health_names = names_of<Health>({"ok", "warning", "error"});

/// The result of one check.
struct Diagnosis {
  std::string check;  ///< The check's name, filled in by the table of checks.
  Health health = Health::ok;
  std::string text;    ///< The finding, with figures.
  std::string remedy;  ///< The command or change that mends the problem; empty if there is none.
};

using Diagnoses = std::vector<Diagnosis>;

/// Returns each problem as an error, or without problems an ok with the text `sound`.
Diagnoses diagnoses_of(const Problems& problems, std::string_view sound);

/// One line for each diagnosis, and a last one with the counts.
std::string to_text(const Diagnoses& diagnoses);

/// {"healthy": no error, "lines": [{"check", "health", "text", "remedy"}, ...]}
std::string to_json(const Diagnoses& diagnoses);

/// 0, or 1 if there is an error.
int exit_code_of(const Diagnoses& diagnoses);

}  // namespace gv
