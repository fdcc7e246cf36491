// Implements the functions that most modes share.
#include "peer/modes/mode.hpp"

#include "peer/modes/swarm_work.hpp"

namespace gv {

Problems Mode::switch_to(Time, std::string_view) {
  return {{.place = "run.mode",
           .reason = "these peers cannot switch while they run",
           .remedy = "those of a model in mode gossip, allreduce or mixing can"}};
}

Progress Mode::progress() const {
  const SwarmWork* work = swarm_work();
  return {.step = step(),
          .steps_per_second = static_cast<float>(steps_per_second()),
          .phase = phase(),
          .trial = trial(),
          .work = work != nullptr ? std::optional(work->own()) : std::nullopt};
}

std::string name_of(PeerId peer, const Membership& members) {
  const Member* member = members.find(peer);
  return member != nullptr ? member->name : to_string(peer);
}

std::vector<std::string> names_of(const std::vector<PeerId>& peers, const Membership& members) {
  std::vector<std::string> names;
  for (const PeerId peer : peers) names.push_back(name_of(peer, members));
  return names;
}

}  // namespace gv
