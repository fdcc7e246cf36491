// Compares the lengths of arrays that peers report.
#include "peer/modes/array_lengths.hpp"

#include <algorithm>

namespace gv {

bool ArrayLengths::must_tell(std::uint64_t call, bool has_unlike) {
  const bool has_heard =
      std::ranges::any_of(told_, [call](const auto& entry) { return entry.second.call == call; });
  if (told_at_ == call || (!has_heard && !has_unlike)) return false;
  told_at_ = call;
  return true;
}

auto ArrayLengths::unlike(std::uint64_t call, std::uint64_t length) const -> std::optional<Unlike> {
  for (const auto& [peer, told] : told_) {
    if (told.call == call && told.length != length) return Unlike{peer, told.length};
  }
  return std::nullopt;
}

}  // namespace gv
