// Holds requests for sketches until our state is available, and limits their number.
#include "consensus/transfer/sketch_server.hpp"

#include <algorithm>

#include "base/state_hash.hpp"
#include "consensus/transfer/sketch.hpp"

namespace gv {
namespace {

/// The most sketches for one peer and stage in a generation. A correct peer asks once for each of
/// its sources, and again if an answer was lost.
constexpr std::size_t answers_max = 64;

}  // namespace

void SketchServer::ask(PeerId from, const SketchRequest& request, Effects& out) {
  if (request.id.owner != from || request.layout_hash != layout_hash_) {
    const bool is_own = request.id.owner == from;
    out.send(from, Refuse{request.id, is_own ? Reason::unknown_layout : Reason::stale});
    return;
  }
  Asked& asked = asked_[{from, request.id.stage}];
  asked.request = request;
  asked.is_open = asked.answers < answers_max;
}

bool SketchServer::is_waited_for(std::uint32_t stage) const {
  return std::ranges::any_of(asked_, [&](const auto& entry) {
    return entry.first.second == stage && entry.second.is_open;
  });
}

void SketchServer::answer(std::uint32_t stage, std::span<const float> values, std::uint64_t step,
                          Effects& out) {
  for (auto& [key, asked] : asked_) {
    if (key.second != stage || !asked.is_open) continue;
    asked.is_open = false;
    ++asked.answers;
    out.send(key.first, SketchReply{.id = asked.request.id,
                                    .step = step,
                                    .values = sketch_of(values, asked.request.seed)});
  }
}

bool operator==(const SketchServer& a, const SketchServer& b) { return equal_states(a, b); }

}  // namespace gv
