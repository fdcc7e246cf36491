// Numbers that peers report, of which fewer than a third may be false.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <vector>

namespace gv {

/// The largest value that more than a third of the reports reach, so that with fewer than a third
/// hostile no value is invented. There must be a report.
template <class Value>
Value vouched(std::vector<Value> reports) {
  const auto nth = reports.begin() + static_cast<std::ptrdiff_t>(reports.size() / 3);
  std::ranges::nth_element(reports, nth, std::greater());
  return *nth;
}

}  // namespace gv
