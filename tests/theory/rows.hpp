// Shared by the files of the table of theory: a function for each subject, and functions that make
// rows.
#pragma once

#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tests/theory/theory.hpp"

namespace gv::theory {

using Rows = std::vector<TheoryRow>;

Rows ring_gap();              // T1
Rows exponential_gap();       // T2
Rows one_peer_exponential();  // T3
Rows base_k();                // T4
Rows averaging();             // T5
Rows one_round();             // T6
Rows push_sum();              // T7
Rows choco();                 // T8
Rows relay_sum();             // T9
Rows companion();             // T10
Rows elastic();               // T11
Rows noloco();                // T12
Rows d2();                    // T13
Rows momentum();              // T14

/// The source of an expected value. theory_legend() explains each source.
inline constexpr std::string_view closed_form = "closed form";
inline constexpr std::string_view published = "published";
inline constexpr std::string_view analysis = "analysis";
inline constexpr std::string_view reference = "reference";

/// Formats a value with as many digits as the allowed difference makes useful.
std::string number_text(double value, double allowed);

/// A row in which `measured` may differ from `expected` by `allowed`.
TheoryRow number(std::string_view id, std::string setting, double measured, double expected,
                 double allowed, std::string_view source, std::string note = {});

/// A row for an error that should consist of rounding alone.
TheoryRow error(std::string_view id, std::string setting, double measured, double allowed,
                std::string note = {});

/// A row with a word instead of a figure, for example "diverges".
TheoryRow word(std::string_view id, std::string setting, std::string measured, std::string expected,
               std::string_view source, std::string note = {});

/// The mean of random values, with its standard error.
class Sample {
 public:
  void add(double value) {
    ++count_;
    const double step = value - mean_;
    mean_ += step / static_cast<double>(count_);
    squares_ += step * (value - mean_);
  }
  double mean() const { return mean_; }
  double deviation() const {
    return count_ < 2 ? 0 : std::sqrt(squares_ / static_cast<double>(count_ - 1));
  }
  double error() const { return deviation() / std::sqrt(static_cast<double>(count_)); }

 private:
  std::size_t count_ = 0;
  double mean_ = 0;
  double squares_ = 0;
};

/// The value between `low` and `high` where `grows` changes from false to true, to within `width`.
template <class Grows>
double boundary(double low, double high, double width, const Grows& grows) {
  while (high - low > width) {
    const double middle = (low + high) / 2;
    (grows(middle) ? high : low) = middle;
  }
  return (low + high) / 2;
}

}  // namespace gv::theory
