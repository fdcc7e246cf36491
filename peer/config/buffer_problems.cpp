// Checks whether compression and momenta suit models with buffers.
#include "peer/config/buffer_problems.hpp"

#include <string>

namespace gv {
namespace {

constexpr const char* remedy =
    "take another algorithm, or a model without such buffers (a group norm in place of a batch "
    "norm)";

}  // namespace

Problems buffer_problems(const Config& config) {
  Problems problems;
  const auto refuse = [&](const char* place, const std::string& what) {
    problems.push_back({place, what + ", and this model has buffers that are averaged", remedy});
  };
  if (config.run.mode == ModeKind::allreduce) {
    const CompressorOptions& how = config.allreduce.compression;
    const bool sends_all = how == CompressorOptions{.codec = how.codec};
    const bool is_lossy = !sends_all || (how.codec != Codec::identity && how.codec != Codec::bf16);
    if (is_lossy) refuse("allreduce", "gradients are compressed");
    if (config.allreduce.noise_scale) {
      refuse("allreduce.noise_scale", "the noise is that of the lengths of gradients");
    }
    if (config.allreduce.local.has_momentum()) {
      refuse("allreduce.outer", "the outer step has a momentum");
    }
  }
  if (config.run.mode == ModeKind::mixing) {
    const MixTraits traits = traits_of(config.mixing.rule);
    if (traits.directs || traits.has_momentum || config.mixing.rule.outer != MixOuter::none) {
      refuse("mixing", "the rule changes gradients or has a momentum");
    }
    if (config.mixing.rule.kind == MixKind::downpour) {
      refuse("mixing", "the rule adds up the changes of all peers");
    }
  }
  return problems;
}

}  // namespace gv
