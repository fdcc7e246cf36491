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

/// What one check has found.
struct Diagnosis {
  std::string check;  ///< Its name; the table of checks fills it in.
  Health health = Health::ok;
  std::string text;    ///< What was found, with figures.
  std::string remedy;  ///< The command or the change that mends it; empty if nothing has to be.
};

using Diagnoses = std::vector<Diagnosis>;

/// Each problem as an error or, without any, `sound` as the text of an ok.
Diagnoses diagnoses_of(const Problems& problems, std::string_view sound);

/// One line for each, and a last one that counts them.
std::string to_text(const Diagnoses& diagnoses);

/// {"healthy": no error, "lines": [{"check", "health", "text", "remedy"}, ...]}
std::string to_json(const Diagnoses& diagnoses);

/// 0, or 1 if there is an error.
int exit_code_of(const Diagnoses& diagnoses);

}  // namespace gv
