// Formats the numbers in reports for human readers.
#include "peer/modes/mode_report.hpp"

#include <fmt/format.h>

#include <cmath>

namespace gv {

std::string plain_number(double value, int digits) {
  constexpr double smallest = 1e-4;  // Below this, the format {:g} writes an exponent.
  const double size = std::abs(value);
  if (size >= std::pow(10.0, digits - 1)) return fmt::format("{:.0f}", value);
  return fmt::format("{:.{}g}", size < smallest ? 0 : value, digits);
}

std::string short_count(double count) {
  constexpr double million = 1e6, thousand = 1e3;
  constexpr int digits = 4;
  if (count >= 10 * million) return plain_number(count / million, digits) + " M";
  if (count >= 10 * thousand) return plain_number(count / thousand, digits) + " k";
  return plain_number(count, digits);
}

}  // namespace gv
