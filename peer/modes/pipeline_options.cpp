// The names of stage consensus, and the rules by which replicas of a stage may mix.
#include "peer/modes/pipeline_options.hpp"

namespace gv {

std::string_view to_string(StageConsensus consensus) {
  switch (consensus) {
    case StageConsensus::allreduce:
      return "allreduce";
    case StageConsensus::gossip:
      return "gossip";
    case StageConsensus::mixing:
      return "mixing";
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
