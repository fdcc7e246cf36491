// Numbers that peers report, of which fewer than a third may be false.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <vector>

#include "consensus/message/message.hpp"

namespace gv {

/// The largest value that more than a third of the reports reach, so that with fewer than a third
/// hostile no value is invented. There must be a report.
template <class Value>
Value vouched(std::vector<Value> reports) {
  const auto nth = reports.begin() + static_cast<std::ptrdiff_t>(reports.size() / 3);
  std::ranges::nth_element(reports, nth, std::greater());
  return *nth;
}

/// True for peers that have not left and are not held for dead.
inline bool is_live(const Member& member) {
  return member.state == MemberState::alive || member.state == MemberState::suspect;
}

}  // namespace gv
