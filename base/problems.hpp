// Problems found in an input. All are reported at once, each with its place, reason and remedy.
#pragma once

#include <string>
#include <vector>

namespace gv {

/// One thing that an operator has to fix.
struct Problem {
  std::string place;   ///< Where the problem is: "configs/a.toml:12: train.batch", "--listen", or a
                       ///< file name.
  std::string reason;  ///< What is wrong: a sentence without a full stop.
  std::string remedy;  ///< What to do about it. May be empty if the reason makes that clear.
};

using Problems = std::vector<Problem>;

/// Formats the problem on one line: "place: reason; remedy".
inline std::string to_string(const Problem& problem) {
  std::string line = problem.place + ": " + problem.reason;
  if (!problem.remedy.empty()) line += "; " + problem.remedy;
  return line;
}

}  // namespace gv
