// What a peer says when it leaves because its values are not finite: which settings can be the
// cause.
#pragma once

#include <cstdint>

#include "consensus/compression/compressor_options.hpp"
#include "consensus/message/facts.hpp"
#include "consensus/mixing/mix_rule.hpp"

namespace gv {

/// In mode `allreduce`, or in a pipeline with the default options: the peer's gradient.
GradientNotFinite gradient_divergence(std::uint64_t step, const CompressorOptions& compression);

/// In mode `mixing`, or for stages that mix: what the peer sends its neighbours.
GradientNotFinite mixing_divergence(std::uint64_t step, const MixRule& rule);

}  // namespace gv
