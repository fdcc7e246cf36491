// The table of theory: results on mixing from closed forms or papers, next to the same figures
// computed with the rules that peers run.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace gv {

/// One figure, or a few that belong together.
struct TheoryRow {
  std::string id;        ///< "T1" to "T14".
  std::string setting;   ///< A description of the measurement.
  std::string measured;  ///< The value computed with the rules of this project.
  std::string expected;
  std::string source;   ///< Where the expected value comes from, see theory_legend().
  std::string allowed;  ///< The largest allowed difference between `measured` and `expected`.
  bool ok = false;
  /// Why `measured` and `expected` differ, or why `allowed` is so large. Empty if not needed.
  std::string note;
};

/// The subject of the rows with one id.
struct TheorySubject {
  std::string_view id;
  std::string_view what;
};
inline constexpr std::array theory_subjects = {
    TheorySubject{"T1", "ring with weights 1/3: gap and decay"},
    TheorySubject{"T2", "static exponential graph: gap and decay"},
    TheorySubject{"T3", "one-peer exponential graph: exact for powers of two alone"},
    TheorySubject{"T4", "Base-(k+1) graph: exact for every number of peers"},
    TheorySubject{"T5", "rounds until N(0,1) scalars agree to a variance of 1e-9 (1e-4)"},
    TheorySubject{"T6", "one round of pulling, of pairs, one pair: what is left in the mean"},
    TheorySubject{"T7", "push-sum with late and lost messages"},
    TheorySubject{"T8", "CHOCO gossip: linear convergence, the mean stays"},
    TheorySubject{"T9", "RelaySum on trees: rounds until exact"},
    TheorySubject{"T10", "A2CiD2 and plain pairs at random times on a ring"},
    TheorySubject{"T11", "EASGD and elastic pairs: up to which force they are stable"},
    TheorySubject{"T12", "NoLoCo: up to which pull together it is stable"},
    TheorySubject{"T13", "D2: which weights it takes"},
    TheorySubject{"T14", "momentum on unlike data: fixed points"}};

/// Computes the rows of one id, which must be in theory_subjects. Always returns the same rows. All
/// ids together take some seconds.
std::vector<TheoryRow> theory_rows(std::string_view id);

/// The texts of the table: the lines before the rows; the rows, with a heading for their subject;
/// and an explanation of the words used in them.
std::string theory_heading();
std::string theory_text(const std::vector<TheoryRow>& rows);
std::string theory_legend();

}  // namespace gv
