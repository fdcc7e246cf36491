// Draws the table of peers, or its plain line.
#include "sim/local/table.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
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
  const double pace = newest.value("samples_per_second", 0.0);
  std::string text = fmt::format("work {:.1f} %  {:.1f} of {:.1f} k samples  ",
                                 100 * counted / budget, counted / 1000, budget / 1000);
  if (pace > 0 && counted < budget) {
    text += fmt::format("about {:.0f} s left  ", (budget - counted) / pace);
  }
  return text;
}

/// True unless a peer has reported that it learns from targets, for which there is no accuracy.
bool has_accuracy(const std::vector<PeerRow>& rows) {
  return std::ranges::none_of(rows, [](const PeerRow& row) {
    return row.status.contains("loss") && !row.status.contains("accuracy");
  });
}

}  // namespace

Table::Table() : terminal_(::isatty(STDOUT_FILENO) != 0) {}

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
  ModeColumns columns;
  for (const PeerRow& row : rows) columns.fit(row.status);
  std::string text;
  if (lines_drawn_ > 0) text += fmt::format("\x1b[{}A", lines_drawn_);
  text += fmt::format("\x1b[K{:.0f} s  {}\n", elapsed_s, head);
  const bool labelled = has_accuracy(rows);
  text += fmt::format("\x1b[K{:<10} {:<9} {:>15} {:>10} {:>8}{}{}\n", "peer", "phase", "step",
                      "samples/s", "loss", labelled ? "  accuracy" : "", columns.head());
  for (const PeerRow& row : rows) {
    const double accuracy = row.status.value("accuracy", 0.0);
    text += fmt::format(
        "\x1b[K{:<10} {:<9} {:>15} {:>10.0f} {:>8.4f}{}{}\n", row.name, row.phase,
        steps_of(row.status), row.trains ? row.status.value("samples_per_second", 0.0) : 0.0,
        row.status.value("loss", 0.0), labelled ? fmt::format(" {:>7.1f} %", 100 * accuracy) : "",
        columns.cells(row.status));
  }
  lines_drawn_ = static_cast<int>(rows.size()) + 2;
  say(stdout, text);
}

}  // namespace gv
