// Makes and prints the rows of the table of theory.
#include "tests/theory/theory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.hpp"
#include "tests/theory/rows.hpp"

namespace gv {
namespace theory {

std::string number_text(double value, double allowed) {
  if (!std::isfinite(value)) return fmt::format("{}", value);
  if (allowed <= 0) return fmt::format("{:.4g}", value);
  if (allowed < 1e-6 && value != 0 && std::abs(value) < 1e-3) return fmt::format("{:.3g}", value);
  const auto digits = static_cast<int>(std::ceil(1 - std::log10(allowed)));
  return fmt::format("{:.{}f}", value, std::clamp(digits, 1, 9));
}

TheoryRow number(std::string_view id, std::string setting, double measured, double expected,
                 double allowed, std::string_view source, std::string note) {
  return {.id = std::string(id),
          .setting = std::move(setting),
          .measured = number_text(measured, allowed),
          .expected = number_text(expected, allowed),
          .source = std::string(source),
          .allowed = fmt::format("{:.2g}", allowed),
          .ok = std::abs(measured - expected) <= allowed,
          .note = std::move(note)};
}

TheoryRow error(std::string_view id, std::string setting, double measured, double allowed,
                std::string note) {
  TheoryRow row =
      number(id, std::move(setting), measured, 0, allowed, closed_form, std::move(note));
  row.measured = fmt::format("{:.1e}", measured);
  row.expected.assign(1, '0');
  return row;
}

TheoryRow word(std::string_view id, std::string setting, std::string measured, std::string expected,
               std::string_view source, std::string note) {
  const bool ok = measured == expected;
  return {.id = std::string(id),
          .setting = std::move(setting),
          .measured = std::move(measured),
          .expected = std::move(expected),
          .source = std::string(source),
          .allowed = "none",
          .ok = ok,
          .note = std::move(note)};
}

}  // namespace theory

namespace {

using Maker = theory::Rows (*)();
constexpr std::array<Maker, theory_subjects.size()> makers = {
    theory::ring_gap,  theory::exponential_gap, theory::one_peer_exponential,
    theory::base_k,    theory::averaging,       theory::one_round,
    theory::push_sum,  theory::choco,           theory::relay_sum,
    theory::companion, theory::elastic,         theory::noloco,
    theory::d2,        theory::momentum};

constexpr std::size_t columns = 120;

std::string line(std::string_view setting, std::string_view measured, std::string_view expected,
                 std::string_view source, std::string_view allowed, std::string_view verdict) {
  const std::string text = fmt::format("  {:<52} {:>15} {:>15}  {:<11} {:<11} {}", setting,
                                       measured, expected, source, allowed, verdict);
  return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
}

/// Breaks a note at blanks into indented lines.
std::string note_text(std::string_view note) {
  std::string text;
  std::string start = "    note: ";
  while (!note.empty()) {
    const std::size_t room = columns - start.size();
    std::size_t end = note.size();
    if (end > room) {
      const std::size_t blank = note.rfind(' ', room);
      end = blank == std::string_view::npos ? room : blank;
    }
    text += fmt::format("{}{}\n", start, note.substr(0, end));
    note.remove_prefix(std::min(note.size(), end + 1));
    start.assign(start.size(), ' ');
  }
  return text;
}

}  // namespace

std::vector<TheoryRow> theory_rows(std::string_view id) {
  const auto subject = std::ranges::find(theory_subjects, id, &TheorySubject::id);
  check(subject != theory_subjects.end(), "the table of theory has this subject");
  return makers[static_cast<std::size_t>(subject - theory_subjects.begin())]();
}

std::string theory_heading() { return line("", "measured", "expected", "source", "allowed", ""); }

std::string theory_text(const std::vector<TheoryRow>& rows) {
  std::string text;
  std::string_view id;
  for (const TheoryRow& row : rows) {
    if (row.id != id) {
      id = row.id;
      const auto subject = std::ranges::find(theory_subjects, id, &TheorySubject::id);
      text += fmt::format("{:<4} {}\n", id, subject == theory_subjects.end() ? "" : subject->what);
    }
    text += line(row.setting, row.measured, row.expected, row.source, row.allowed,
                 row.ok ? "ok" : "DIFFERS");
    text += note_text(row.note);
  }
  return text;
}

std::string theory_legend() {
  return "closed form: a formula. published: from the paper or its authors' program. reference:\n"
         "another program of the same rules. allowed: the most by which measured and expected may\n"
         "differ; where there are two numbers, of each.\n";
}

}  // namespace gv
