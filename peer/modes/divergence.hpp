// The report of a peer that leaves because its values are not finite. Names settings that may be
// the cause.
#pragma once

#include <cstdint>

#include "consensus/compression/compressor_options.hpp"
#include "consensus/message/facts.hpp"
#include "consensus/mixing/mix_rule.hpp"

namespace gv {

/// For mode `allreduce`, or a pipeline with the default options: the peer's gradient diverged.
GradientNotFinite gradient_divergence(std::uint64_t step, const CompressorOptions& compression);

/// For mode `mixing`, or stages that mix: the peer's messages to its neighbours diverged.
GradientNotFinite mixing_divergence(std::uint64_t step, const MixRule& rule);

}  // namespace gv
