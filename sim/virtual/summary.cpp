// Writes a virtual run's summary as JSON.
#include "sim/virtual/summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace gv {

std::string virtual_summary(const Simulator& world, const Tally& tally, const HostileTally& hostile,
                            const CurvePoint& last, std::span<const PeerSummary> peers,
                            double wall_s) {
  using Json = nlohmann::ordered_json;
  const auto name = [](const PeerSummary& peer) { return fmt::format("peer-{}", peer.number); };
  const std::string merit = last.r2 ? "r2" : "accuracy";
  const PeerSummary* worst = nullptr;
  std::size_t unfinished = 0;
  Json table = Json::array();
  Json hostile_names = Json::array();
  for (const PeerSummary& peer : peers) {
    unfinished += peer.has_model && peer.step >= peer.budget ? 0 : 1;
    if (peer.has_model && !peer.hostile && (worst == nullptr || peer.merit() < worst->merit()))
      worst = &peer;
    table.push_back({{"name", name(peer)},
                     {"has_model", peer.has_model},
                     {merit, peer.merit()},
                     {"step", peer.step},
                     {"budget", peer.budget}});
    if (peer.hostile) {
      table.back()["hostile"] = to_string(peer.hostile->attack);
      hostile_names.push_back(name(peer));
    }
    if (!peer.trial) continue;
    table.back()["population"] = {{"learning_rate", peer.trial->learning_rate},
                                  {"momentum", peer.trial->momentum},
                                  {"validation_loss", peer.trial->validation_loss},
                                  {"copies", peer.copies}};
  }
  const WorldCounts& counts = world.counts();
  Json summary{{"mean_" + merit, last.merit()},
               {"mean_loss", last.loss},
               {"spread", last.spread},
               {"virtual_s", last.time_s},
               {"wall_s", wall_s},
               {"steps", tally.steps()},
               {"unfinished", unfinished},
               {"lane_bytes", counts.lane_bytes},
               {"control_bytes", counts.control_bytes},
               {"messages", counts.messages},
               {"messages_lost", counts.lost},
               {"messages_superseded", counts.superseded},
               {"exchanges", tally.exchanges()},
               {"events", tally.by_name()},
               {"faults", tally.injected()},
               {"trace_hash", fmt::format("{:016x}", world.trace_hash())},
               {"peers", std::move(table)}};
  if (worst != nullptr) {
    summary["worst_" + merit] = worst->merit();
    summary["worst_peer"] = name(*worst);
  }
  if (!hostile_names.empty()) {
    summary["hostile"] = {{"peers", std::move(hostile_names)},
                          {"heard", hostile.of_hostile().heard},
                          {"held_back", hostile.of_hostile().held_back},
                          {"honest_heard", hostile.of_honest().heard},
                          {"honest_held_back", hostile.of_honest().held_back},
                          {"messages_refused", hostile.refused()}};
  }
  return summary.dump(1) + '\n';
}

}  // namespace gv
