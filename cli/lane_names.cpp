// The names of `--lane`.
#include "cli/lane_names.hpp"

#include <fmt/format.h>

namespace gv {

std::optional<LaneKind> lane_kind(const std::string& name) {
  if (name == "auto") return LaneKind::automatic;
  if (name == "tls") return LaneKind::tls;
  if (name == "plain") return LaneKind::plain;
  if (name == "unix") return LaneKind::unix_socket;
  return std::nullopt;
}

Problem no_lane(const std::string& name) {
  return {"--lane", fmt::format("'{}' is no kind of lane", name), "write auto, tls, plain or unix"};
}

}  // namespace gv
