// Which rules replicas of a stage may mix by.
#include "peer/modes/pipeline_options.hpp"

namespace gv {

std::string_view to_string(StageConsensus consensus) {
  switch (consensus) {
    case StageConsensus::ring:
      return "ring";
    case StageConsensus::gossip:
      return "gossip";
    case StageConsensus::rounds:
      return "rounds";
  }
  return "";
}

MixRule in_runs(const MixRule& rule) {
  return {.topology = rule.topology,
          .partners = rule.partners,
          .gamma = rule.gamma,
          .alpha = rule.alpha,
          .codec = rule.codec,
          .guard = rule.guard,
          .fragments = rule.fragments};
}

}  // namespace gv
