// Turns lines of comma-separated numbers into samples.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "base/problems.hpp"
#include "train/data_set.hpp"

namespace gv {

inline constexpr std::size_t csv_problems_max = 20;  ///< The most problems listed for one file.

/// Values become inputs as (value - mean) / deviation. The result is computed in double precision,
/// so that values with a large mean do not lose the digits in which they differ.
struct InputScale {
  double mean = 0;
  double deviation = 1;
};

/// Reads the lines of one file in order, and checks that all rows have the same number of columns.
class CsvRows {
 public:
  /// If `targets` is 0, the last column is a label. Otherwise, the last `targets` columns are
  /// targets.
  CsvRows(std::size_t targets, InputScale scale) : targets_(targets), scale_(scale) {}
  /// Reads a part of a file after the headings. Rows have `width` columns, and the first line has
  /// the number `first_line`.
  CsvRows(std::size_t targets, InputScale scale, std::size_t width, std::size_t first_line)
      : targets_(targets),
        scale_(scale),
        width_(width),
        number_(first_line - 1),
        may_be_headings_(false) {}

  /// Appends the sample in the next line to `data`. `line` excludes the line end. Skips empty
  /// lines, and headings in the first line. Returns the reason and remedy if the line is refused;
  /// `data` must then not be used.
  std::optional<Problem> add(std::string_view line, DataSet& data);

  /// Number of the last line read, from 1.
  std::size_t number() const { return number_; }
  /// Columns of a row; 0 before the first row.
  std::size_t width() const { return width_; }
  /// Number of input columns. Only valid after the first row.
  std::size_t features() const { return width_ - last_columns(); }
  /// Sets the shape of samples, and the number of targets, in `data`. Only valid after the first
  /// row.
  void describe(DataSet& data) const;

 private:
  std::size_t last_columns() const { return targets_ == 0 ? 1 : targets_; }

  std::size_t targets_;
  InputScale scale_;
  std::size_t width_ = 0;
  std::size_t number_ = 0;
  bool may_be_headings_ = true;  ///< True if reading began at the start of the file.
};

}  // namespace gv
