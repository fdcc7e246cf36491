// Parses the fields of a CSV line.
#include "train/data/csv_rows.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace gv {
namespace {

constexpr std::size_t label_max = 100000;

struct CsvRow {
  std::vector<double> values;
  bool numeric = true;         ///< True if every field is a number that fits into a float.
  bool starts_numeric = true;  ///< True if the first field is any kind of number, even "nan".
};

CsvRow parse_row(std::string_view line) {
  CsvRow row;
  while (true) {
    const std::size_t comma = std::min(line.find(','), line.size());
    std::string_view field = line.substr(0, comma);
    while (!field.empty() && (field.front() == ' ' || field.front() == '\t'))
      field.remove_prefix(1);
    while (!field.empty() &&
           (field.back() == ' ' || field.back() == '\t' || field.back() == '\r')) {
      field.remove_suffix(1);
    }
    double value = 0;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    const bool whole = error != std::errc::invalid_argument && end == field.data() + field.size();
    if (row.values.empty()) row.starts_numeric = whole;
    // A value too large for a float would become infinity in training. The comparison is also false
    // for NaN.
    row.numeric = row.numeric && whole && error == std::errc() &&
                  std::abs(value) <= std::numeric_limits<float>::max();
    row.values.push_back(value);
    if (comma == line.size()) return row;
    line.remove_prefix(comma + 1);
  }
}

bool is_label(double value) {
  return value >= 0 && value <= static_cast<double>(label_max) && value == std::floor(value);
}

}  // namespace

std::optional<Problem> CsvRows::add(std::string_view line, DataSet& data) {
  ++number_;
  if (line.empty() || line == "\r") return std::nullopt;
  const CsvRow row = parse_row(line);
  // Only the first field decides whether the line is a heading. A bad field after a numeric first
  // field is thus reported.
  if (number_ == 1 && may_be_headings_ && !row.starts_numeric) return std::nullopt;
  const auto refuse = [](std::string reason, std::string remedy) {
    return Problem{.place = {}, .reason = std::move(reason), .remedy = std::move(remedy)};
  };
  if (!row.numeric) {
    return refuse("not every field is a finite number", "write numbers separated by commas");
  }
  if (width_ == 0) width_ = row.values.size();
  if (row.values.size() != width_ || width_ <= last_columns()) {
    return refuse("it has " + std::to_string(row.values.size()) + " columns, " +
                      (width_ <= last_columns() ? "too few for features and targets"
                                                : "the first row has " + std::to_string(width_)),
                  "give every row the same columns: features, then the label or the targets");
  }
  if (targets_ == 0 && !is_label(row.values.back())) {
    return refuse("the last column is not a label", "write whole numbers from 0 to " +
                                                        std::to_string(label_max) +
                                                        ", or set data.csv_targets for regression");
  }
  for (std::size_t i = 0; i < features(); ++i) {
    const double value = (row.values[i] - scale_.mean) / scale_.deviation;
    if (!(std::abs(value) <= std::numeric_limits<float>::max())) {
      return refuse("a field less data.mean and divided by data.deviation is too large for a float",
                    "choose mean and deviation that bring the features near to 1");
    }
    data.floats.push_back(static_cast<float>(value));
  }
  if (targets_ == 0) {
    data.labels.push_back(static_cast<std::int32_t>(row.values.back()));
  } else {
    for (std::size_t i = features(); i < width_; ++i) {
      data.targets.push_back(static_cast<float>(row.values[i]));
    }
  }
  return std::nullopt;
}

void CsvRows::describe(DataSet& data) const {
  data.shape = {features(), 1, 1};
  data.target_width = targets_;
}

}  // namespace gv
