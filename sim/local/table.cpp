// The table of peers, and its plain line.
#include "sim/local/table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdio>
#include <vector>

#include "peer/node/node.hpp"
#include "sim/local/population_text.hpp"

namespace gv {
namespace {

using Json = nlohmann::json;

/// Without a terminal a line this often is enough.
constexpr int plain_lines_every = 5;

/// The columns about the work of peers together.
std::string together_head(ModeKind mode, bool population) {
  if (mode == ModeKind::pipeline) {
    return fmt::format("{:>8} {:>7} {:>6}", "stages", "waits", "losses");
  }
  if (mode == ModeKind::allreduce)
    return fmt::format("{:>8} {:>7} {:>12}", "together", "losses", "models sent");
  if (mode == ModeKind::mixing) {
    return fmt::format("{:>8} {:>8} {:>7} {:>12}", "together", "rounds", "losses", "models sent");
  }
  return fmt::format("{:>9} {:>9} {:>8}{}", "exchanges", "refused", "spread",
                     population ? population_head() : "");
}

std::string together(const Json& status, ModeKind mode) {
  if (mode == ModeKind::pipeline) {
    const Json pipeline = status.value("pipeline", Json::object());
    return fmt::format("{:>8} {:>5.0f} % {:>6}",
                       fmt::join(pipeline.value("own_stages", std::vector<unsigned>()), ","),
                       100 * pipeline.value("waiting_part", 0.0), pipeline.value("losses", 0ULL));
  }
  if (mode == ModeKind::allreduce) {
    const Json allreduce = status.value("allreduce", Json::object());
    return fmt::format("{:>8} {:>7} {:>12}", allreduce.value("order", Json::array()).size(),
                       allreduce.value("losses", 0ULL), allreduce.value("states_sent", 0ULL));
  }
  if (mode == ModeKind::mixing) {
    const Json rounds = status.value("mixing", Json::object());
    return fmt::format("{:>8} {:>8} {:>7} {:>12}", rounds.value("together", 0ULL),
                       rounds.value("rounds", 0ULL), rounds.value("losses", 0ULL),
                       rounds.value("states_sent", 0ULL));
  }
  const Json exchanges = status.value("exchanges", Json::object());
  return fmt::format("{:>9} {:>9} {:>8.3g}{}", exchanges.value("committed", 0ULL),
                     exchanges.value("refused", 0ULL), status.value("spread", 0.0),
                     status.contains("population") ? population_columns(status["population"]) : "");
}

}  // namespace

Table::Table() : terminal_(::isatty(STDOUT_FILENO) != 0) {}

void Table::tell(const std::string& line) {
  if (lines_drawn_ > 0) fmt::print("\x1b[{}A\x1b[J", lines_drawn_);
  lines_drawn_ = 0;
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

void Table::draw(double elapsed_s, const std::vector<PeerRow>& rows) {
  double samples_per_second = 0;
  std::uint64_t exchanges = 0;
  std::uint64_t bytes = 0;
  ModeKind mode = ModeKind::gossip;
  bool population = false;
  for (const PeerRow& row : rows) {
    if (row.trains) samples_per_second += row.status.value("samples_per_second", 0.0);
    exchanges += row.status.value("exchanges", Json::object()).value("committed", 0ULL);
    population = population || row.status.contains("population");
    if (row.status.contains("allreduce")) mode = ModeKind::allreduce;
    if (row.status.contains("pipeline")) mode = ModeKind::pipeline;
    if (row.status.contains("mixing")) mode = ModeKind::mixing;
    bytes += row.status.value("bytes", Json::object()).value("lanes_sent", 0ULL);
  }
  // Both ends of an exchange count it.
  const std::string head =
      fmt::format("{:.0f} samples/s{}  {:.1f} MB sent", samples_per_second,
                  mode != ModeKind::gossip ? "" : fmt::format("  {} exchanges", exchanges / 2),
                  static_cast<double>(bytes) / 1e6);
  if (!terminal_) {
    if (calls_++ % plain_lines_every != 0) return;
    std::string line = fmt::format("{:6.0f} s  {}", elapsed_s, head);
    for (const PeerRow& row : rows) {
      line += fmt::format("  |  {} {} {}/{} loss {:.3f}", row.name, row.phase,
                          row.status.value("step", 0ULL), row.status.value("steps", 0ULL),
                          row.status.value("loss", 0.0));
    }
    fmt::print("{}\n", line);
    std::fflush(stdout);
    return;
  }
  std::string text;
  if (lines_drawn_ > 0) text += fmt::format("\x1b[{}A", lines_drawn_);
  text += fmt::format("\x1b[K{:.0f} s  {}\n", elapsed_s, head);
  text += fmt::format("\x1b[K{:<10} {:<9} {:>15} {:>10} {:>8} {:>9} {}\n", "peer", "phase", "step",
                      "samples/s", "loss", "accuracy", together_head(mode, population));
  for (const PeerRow& row : rows) {
    text += fmt::format(
        "\x1b[K{:<10} {:<9} {:>15} {:>10.0f} {:>8.4f} {:>7.1f} % {}\n", row.name, row.phase,
        fmt::format("{}/{}", row.status.value("step", 0ULL), row.status.value("steps", 0ULL)),
        row.trains ? row.status.value("samples_per_second", 0.0) : 0.0,
        row.status.value("loss", 0.0), 100 * row.status.value("accuracy", 0.0),
        together(row.status, mode));
  }
  lines_drawn_ = static_cast<int>(rows.size()) + 2;
  fmt::print("{}", text);
  std::fflush(stdout);
}

}  // namespace gv
