// A mode's report, in a form that status, metrics and tables print without knowing the mode.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/ids.hpp"

namespace gv {

/// A value of a report.
using Figure = std::variant<std::uint64_t, double, std::string, std::vector<std::string>,
                            std::vector<std::uint32_t>, std::vector<double>,
                            std::vector<std::vector<std::string>>>;

/// A part of the document that `status` asks for.
struct ReportSection {
  std::string_view name;
  std::vector<std::pair<std::string_view, Figure>> figures;
};

/// A part of one member's entry in that document.
struct ReportMember {
  PeerId id{};
  ReportSection section;
};

/// A figure for Prometheus; `grapevine_` is put before its name.
struct ReportMetric {
  enum class Kind { counter, gauge };
  std::string_view name;  ///< Counters end in "_total".
  Kind kind = Kind::counter;
  std::string_view help;
  double value = 0;
};

/// A cell in the table of peers.
struct ReportColumn {
  std::string_view head;
  std::string text;
};

/// One mode's report at one moment. Counts are totals since the start.
struct ModeReport {
  std::vector<ReportSection> sections;
  std::vector<ReportMember> members;
  std::vector<ReportMetric> metrics;
  std::vector<ReportColumn> columns;
  std::string line;                  ///< The end of a line of progress.
  std::vector<std::string> details;  ///< Lines of the table that `status` prints.
  /// Samples of one step; empty: the peer's batch.
  std::optional<double> samples_per_step;
  /// The part of a step's work that this peer does, so that the rates of all peers add up to the
  /// swarm's.
  double share_of_work = 1;
};

}  // namespace gv
