// Prints the table of docs/theory.md: all subjects, or the named ones (T1 to T14).
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/theory/theory.hpp"

namespace gv {
namespace {

/// Prints the rows. The exit code is 1 if any row differs from its expected value.
int print_table(const std::vector<std::string>& ids) {
  std::size_t rows = 0;
  std::size_t differing = 0;
  fmt::print("{}", theory_heading());
  for (const TheorySubject& subject : theory_subjects) {
    if (!ids.empty() && std::ranges::find(ids, subject.id) == ids.end()) continue;
    const std::vector<TheoryRow> of_subject = theory_rows(subject.id);
    rows += of_subject.size();
    for (const TheoryRow& row : of_subject) differing += row.ok ? 0 : 1;
    fmt::print("{}", theory_text(of_subject));
    std::fflush(stdout);
  }
  fmt::print("\n{}{} rows, {}\n", theory_legend(), rows,
             differing == 0 ? "all as expected" : fmt::format("{} DIFFER", differing));
  return differing == 0 ? 0 : 1;
}

}  // namespace
}  // namespace gv

int main(int argc, char** argv) {
  const std::vector<std::string> ids(argv + 1, argv + argc);
  for (const std::string& id : ids) {
    if (std::ranges::find(gv::theory_subjects, id, &gv::TheorySubject::id) ==
        gv::theory_subjects.end()) {
      fmt::print(stderr, "{}: the table has no such subject. write T1 to T14\n", id);
      return 2;
    }
  }
  return gv::print_table(ids);
}
