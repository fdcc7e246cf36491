// Picks a value from peers' reports, of which fewer than a third may be false.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <vector>

namespace gv {

/// Returns the largest value that more than a third of the reports reach or exceed. If fewer than a
/// third of the peers are hostile, at least one honest report is that large too. `reports` must not
/// be empty.
template <class Value>
Value vouched(std::vector<Value> reports) {
  const auto nth = reports.begin() + static_cast<std::ptrdiff_t>(reports.size() / 3);
  std::ranges::nth_element(reports, nth, std::greater());
  return *nth;
}

}  // namespace gv
