// Makes the report of a peer that leaves because its values are not finite. Names likely causes.
#pragma once

#include <cstdint>

#include "consensus/compression/compressor_options.hpp"
#include "consensus/message/facts.hpp"
#include "consensus/mixing/mix_rule.hpp"

namespace gv {

/// Returns the report for mode `allreduce`, or for a pipeline with default options, when the peer's
/// gradient is not finite.
GradientNotFinite gradient_divergence(std::uint64_t step, const CompressorOptions& compression);

/// Returns the report for mode `mixing`, or for stages that mix, when the peer's messages to its
/// neighbours are not finite.
GradientNotFinite mixing_divergence(std::uint64_t step, const MixRule& rule);

}  // namespace gv
