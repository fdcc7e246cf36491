// Checks whether compression and momenta suit models with buffers.
#include "peer/config/buffer_problems.hpp"

#include <string>

namespace gv {

Problems buffer_problems(const Config& config, const AveragedValues& values) {
  Problems problems;
  const auto refuse = [&](const char* place, const std::string& what, const std::string& remedy) {
    problems.push_back({place, what + ", and " + std::string(values.reason),
                        remedy + std::string(values.other_model)});
  };
  if (config.run.mode == ModeKind::allreduce) {
    const CompressorOptions& how = config.allreduce.compression;
    const bool sends_all = how == CompressorOptions{.codec = how.codec};
    const bool is_lossy = !sends_all || (how.codec != Codec::identity && how.codec != Codec::bf16);
    if (is_lossy) {
      refuse("allreduce", "gradients are compressed", "take algorithm = \"all_reduce\"");
    }
    if (config.allreduce.noise_scale) {
      refuse("allreduce.noise_scale", "the noise is that of the lengths of gradients",
             "leave noise_scale out");
    }
    if (config.allreduce.local.has_momentum()) {
      refuse("allreduce.outer", "the outer step has a momentum", "take algorithm = \"local_sgd\"");
    }
  }
  if (config.run.mode == ModeKind::mixing) {
    const char* remedy = "take algorithm = \"diffusion\"";
    const MixTraits traits = traits_of(config.mixing.rule);
    if (traits.directs || traits.has_momentum || config.mixing.rule.outer != MixOuter::none) {
      refuse("mixing", "the rule changes gradients or has a momentum", remedy);
    }
    if (config.mixing.rule.kind == MixKind::downpour) {
      refuse("mixing", "the rule adds up the changes of all peers", remedy);
    }
  }
  return problems;
}

}  // namespace gv
