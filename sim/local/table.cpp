// Draws the table of peers, or its plain line.
#include "sim/local/table.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "peer/config/refusal.hpp"
#include "peer/host/report.hpp"
#include "sim/local/mode_columns.hpp"

namespace gv {
namespace {

/// Without a terminal, one in this many calls prints a line.
constexpr int plain_lines_every = 5;

std::string steps_of(const nlohmann::json& status) {
  return step_of(status.value("step", 0ULL), status.value("steps", 0ULL));
}

/// The used part of the swarm's budget, as reported by the peer with the highest count of samples.
/// Empty if each peer has its own budget.
std::string work_of(const std::vector<PeerRow>& rows) {
  nlohmann::json newest;
  for (const PeerRow& row : rows) {
    const nlohmann::json work = row.status.value("work", nlohmann::json::object());
    if (work.empty()) continue;
    if (newest.empty() || work.value("counted", 0ULL) > newest.value("counted", 0ULL)) {
      newest = work;
    }
  }
  const double budget = newest.is_object() ? newest.value("budget", 0.0) : 0;
  if (budget <= 0) return "";
  const double counted = std::min(budget, newest.value("counted", 0.0));
  std::string text = fmt::format("work {:.1f} %  {:.1f} of {:.1f} k samples  ",
                                 100 * counted / budget, counted / 1000, budget / 1000);
  if (counted < budget && newest.contains("seconds_left")) {
    text += fmt::format("about {:.0f} s left  ", newest.value("seconds_left", 0.0));
  }
  return text;
}

/// True unless a peer has reported that it learns from targets, for which there is no accuracy.
bool has_accuracy(const std::vector<PeerRow>& rows) {
  return std::ranges::none_of(rows, [](const PeerRow& row) {
    return row.status.contains("loss") && !row.status.contains("accuracy");
  });
}

/// Returns the terminal's current size. Call before each drawing, because the user may resize the
/// terminal at any time.
TerminalSize terminal_size() {
  ::winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return {};
  return {.columns = size.ws_col, .rows = size.ws_row};
}

/// Returns the beginning of the line that fills at most `columns` columns of a terminal. A control
/// sequence fills none, and is kept even behind the cut because it may end a colour.
std::string cut(std::string_view line, std::size_t columns) {
  std::string kept;
  std::size_t used = 0;
  bool is_kept = true;  // True if the current character is before the cut.
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (line.substr(at).starts_with("\x1b[")) {
      const std::size_t end = std::min(line.find_first_not_of("0123456789;", at + 2), line.size());
      kept += line.substr(at, end + 1 - at);
      at = end;
      continue;
    }
    // In UTF-8, all bytes of a character except the first one begin with these two bits.
    const bool is_first = (static_cast<unsigned char>(line[at]) & 0xC0U) != 0x80U;
    if (is_first) is_kept = used++ < columns;
    if (is_kept) kept += line[at];
  }
  return kept;
}

}  // namespace

std::vector<std::string> fitted(std::vector<std::string> lines, const TerminalSize& size) {
  // The cursor stays below the table, and the note about omitted lines takes another row.
  if (size.rows > 0 && lines.size() >= size.rows) {
    const std::size_t shown = size.rows > 2 ? size.rows - 2 : 0;
    const std::size_t left_out = lines.size() - shown;
    lines.resize(shown);
    lines.push_back(fmt::format("{} more lines have no room here", left_out));
  }
  if (size.columns == 0) return lines;
  for (std::string& line : lines) line = cut(line, size.columns);
  return lines;
}

bool can_redraw() {
  const char* const kind = std::getenv("TERM");
  // A terminal of this kind has no control sequences.
  const bool is_dumb = kind != nullptr && std::string_view(kind) == "dumb";
  return !is_dumb && ::isatty(STDOUT_FILENO) != 0;
}

Table::Table() : terminal_(can_redraw()) {}

void Table::tell(const std::string& line) {
  if (lines_drawn_ > 0) say(stdout, fmt::format("\x1b[{}A\x1b[J", lines_drawn_));
  lines_drawn_ = 0;
  say(stdout, line + "\n");
}

void Table::draw(double elapsed_s, const std::vector<PeerRow>& rows) {
  double samples_per_second = 0;
  std::uint64_t exchanges = 0;
  std::uint64_t bytes = 0;
  for (const PeerRow& row : rows) {
    if (row.trains) samples_per_second += row.status.value("samples_per_second", 0.0);
    exchanges += row.status.value("exchanges", nlohmann::json::object()).value("committed", 0ULL);
    bytes += row.status.value("bytes", nlohmann::json::object()).value("lanes_sent", 0ULL);
  }
  // Both peers of an exchange count it, so halve the count.
  const std::string head =
      fmt::format("{}{:.0f} samples/s{}  {:.1f} MB sent", work_of(rows), samples_per_second,
                  exchanges == 0 ? "" : fmt::format("  {} exchanges", exchanges / 2),
                  static_cast<double>(bytes) / 1e6);
  if (!terminal_) {
    if (calls_++ % plain_lines_every != 0) return;
    std::string line = fmt::format("{:6.0f} s  {}", elapsed_s, head);
    for (const PeerRow& row : rows) {
      line += fmt::format("  |  {} {} {} loss {:.3f}", row.name, row.phase, steps_of(row.status),
                          row.status.value("loss", 0.0));
    }
    say(stdout, line + "\n");
    return;
  }
  draw_lines(fmt::format("{:.0f} s  {}", elapsed_s, head), rows);
}

/// Overwrites the table on the terminal. The cursor moves back up by the number of lines, so every
/// line must fit in one row, and the table must fit on the terminal.
void Table::draw_lines(const std::string& head, const std::vector<PeerRow>& rows) {
  ModeColumns columns;
  for (const PeerRow& row : rows) columns.fit(row.status);
  const bool labelled = has_accuracy(rows);
  std::vector<std::string> lines = {head};
  lines.push_back(fmt::format("{:<10} {:<9} {:>15} {:>10} {:>8}{}{}", "peer", "phase", "step",
                              "samples/s", "loss", labelled ? "  accuracy" : "", columns.head()));
  for (const PeerRow& row : rows) {
    const double accuracy = row.status.value("accuracy", 0.0);
    lines.push_back(fmt::format(
        "{:<10} {:<9} {:>15} {:>10.0f} {:>8.4f}{}{}", row.name, row.phase, steps_of(row.status),
        row.trains ? row.status.value("samples_per_second", 0.0) : 0.0,
        row.status.value("loss", 0.0), labelled ? fmt::format(" {:>7.1f} %", 100 * accuracy) : "",
        columns.cells(row.status)));
  }
  lines = fitted(std::move(lines), terminal_size());
  std::string text;
  if (lines_drawn_ > 0) text += fmt::format("\x1b[{}A", lines_drawn_);
  for (const std::string& line : lines) text += "\x1b[K" + line + "\n";
  lines_drawn_ = static_cast<int>(lines.size());
  // The previous table may have had more lines.
  say(stdout, text + "\x1b[J");
}

}  // namespace gv
