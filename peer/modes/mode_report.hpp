// A mode's report in a form that status, metrics and tables can print without knowing the mode.
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

/// One value of a report.
using Figure = std::variant<std::uint64_t, double, std::string, std::vector<std::string>,
                            std::vector<std::uint32_t>, std::vector<double>,
                            std::vector<std::vector<std::string>>>;

/// A section of the document that the command `status` requests.
struct ReportSection {
  std::string_view name;
  std::vector<std::pair<std::string_view, Figure>> figures;
};

/// A section of one member's entry in the document that `status` requests.
struct ReportMember {
  PeerId id{};
  ReportSection section;
};

/// A figure for Prometheus. The output prefixes its name with `grapevine_`.
struct ReportMetric {
  enum class Kind { counter, gauge };
  std::string_view name;  ///< The name of a counter must end in "_total".
  Kind kind = Kind::counter;
  std::string_view help;
  double value = 0;
};

/// A cell in the table of peers, with the heading of its column.
struct ReportColumn {
  std::string_view head;
  std::string text;
};

/// A mode's report at one moment. Counts are totals since the peer started.
struct ModeReport {
  std::vector<ReportSection> sections;
  std::vector<ReportMember> members;
  std::vector<ReportMetric> metrics;
  std::vector<ReportColumn> columns;
  std::string line;                  ///< Text for the end of a progress line.
  std::vector<std::string> details;  ///< Extra lines in the table that `status` prints.
  /// Samples in one step; if empty, the peer's batch.
  std::optional<double> samples_per_step;
  /// The fraction of a step's work that this peer does. The sum of all peers' rates, each
  /// multiplied by its peer's fraction, is the swarm's rate.
  double share_of_work = 1;
};

/// Returns the number with `digits` significant digits, and with more if its integer part is
/// longer. So a large number has no exponent. A number that is not finite becomes "inf", "-inf" or
/// "nan".
std::string plain_number(double value, int digits = 3);

/// Returns a non-negative count with up to four digits, in thousands or millions if it is large:
/// "9500", "12.5 k", "60 M".
std::string short_count(double count);

}  // namespace gv
