// Counts the peers that see the end of a run.
#include "consensus/generation/planner.hpp"

#include <algorithm>
#include <cstddef>

namespace gv {

bool is_end_agreed(const Answers& answers, const ModelVersion& version) {
  std::size_t holders = 0;
  std::size_t enders = 0;
  for (const auto& [peer, answer] : answers) {
    const bool has_it = !is_before(answer.version, version) ||
                        std::ranges::find(answer.holdings, version, &StageHolding::version) !=
                            answer.holdings.end();
    holders += has_it;
    enders += has_it && answer.ends;
  }
  return 3 * enders > holders;
}

}  // namespace gv
