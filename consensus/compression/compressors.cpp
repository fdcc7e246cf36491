// The table of gradient compressors.
#include "consensus/compression/compressors.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>

namespace gv {

// Each of these functions is defined in the file of its compressor. Only the table below calls
// them.
std::unique_ptr<GradientCompressor> whole_compressor(const CompressorOptions& options,
                                                     std::size_t elements, const GradientPlaces&);
std::unique_ptr<GradientCompressor> top_k_compressor(const CompressorOptions& options,
                                                     std::size_t elements, const GradientPlaces&);
std::unique_ptr<GradientCompressor> power_sgd_compressor(const CompressorOptions& options,
                                                         std::size_t elements,
                                                         const GradientPlaces& places);
std::unique_ptr<GradientCompressor> sufficient_factors_compressor(const CompressorOptions& options,
                                                                  std::size_t elements,
                                                                  const GradientPlaces& places);
std::unique_ptr<GradientCompressor> one_bit_compressor(const CompressorOptions&,
                                                       std::size_t elements, const GradientPlaces&);
std::unique_ptr<GradientCompressor> random_k_compressor(const CompressorOptions& options,
                                                        std::size_t elements,
                                                        const GradientPlaces&);
std::unique_ptr<GradientCompressor> ternary_compressor(const CompressorOptions&,
                                                       std::size_t elements, const GradientPlaces&);

namespace {

constexpr std::array kinds = {
    CompressorKind{.name = "whole",
                   .setting = {},
                   .is_chosen = [](const CompressorOptions&) { return true; },
                   .make = whole_compressor,
                   .model_has = {},
                   .with_another = {},
                   .with_local_steps = {}},
    CompressorKind{.name = "top_k",
                   .setting = "top_k_per_512",
                   .is_chosen = [](const CompressorOptions& o) { return o.top_k_per_512 > 0; },
                   .make = top_k_compressor,
                   .model_has = {},
                   .with_another = {},
                   .with_local_steps = {}},
    CompressorKind{.name = "power_sgd",
                   .setting = "rank",
                   .is_chosen = [](const CompressorOptions& o) { return o.rank > 0; },
                   .make = power_sgd_compressor,
                   .model_has = "matrices",
                   .with_another = {.reason = "factors have no few largest numbers, all of theirs "
                                              "are about as large",
                                    .remedy = "leave rank or top_k_per_512 out"},
                   .with_local_steps = {}},
    CompressorKind{.name = "sufficient_factors",
                   .setting = "sufficient_factors",
                   .is_chosen = [](const CompressorOptions& o) { return o.sufficient_factors; },
                   .make = sufficient_factors_compressor,
                   .model_has = "dense layers",
                   .takes_codec = false,
                   .with_another = {.reason = "what they are the product of is sent exactly, and "
                                              "then nothing is left to be coded",
                                    .remedy = "leave codec, top_k_per_512 and rank out, or "
                                              "sufficient_factors"},
                   .with_local_steps = {.reason = "what local steps come to is not the product of "
                                                  "one batch's inputs and deltas",
                                        .remedy = "write period = 1, or leave sufficient_factors "
                                                  "out"}},
    CompressorKind{.name = "one_bit",
                   .setting = "one_bit",
                   .is_chosen = [](const CompressorOptions& o) { return o.one_bit; },
                   .make = one_bit_compressor,
                   .model_has = "gradients to compress",
                   .takes_codec = false,
                   .with_another = {.reason = "one bit for each value leaves nothing to choose or "
                                              "to code",
                                    .remedy = "leave codec, top_k_per_512, rank and "
                                              "sufficient_factors out, or one_bit"},
                   .with_local_steps = {}},
    CompressorKind{
        .name = "random_k",
        .setting = "random_k_per_512",
        .is_chosen = [](const CompressorOptions& o) { return o.random_k_per_512 > 0; },
        .make = random_k_compressor,
        .model_has = "gradients to compress",
        .with_another = {.reason = "drawn values of a gradient are sent as they are, and "
                                   "another compressor would choose among others",
                         .remedy = "leave top_k_per_512, rank, sufficient_factors and "
                                   "one_bit out, or random_k_per_512"},
        .with_local_steps = {}},
    CompressorKind{.name = "ternary",
                   .setting = "ternary",
                   .is_chosen = [](const CompressorOptions& o) { return o.ternary; },
                   .make = ternary_compressor,
                   .model_has = "gradients to compress",
                   .takes_codec = false,
                   .with_another = {.reason = "two bits for each value leave nothing to choose or "
                                              "to code",
                                    .remedy = "leave codec, top_k_per_512, rank, "
                                              "sufficient_factors, one_bit and random_k_per_512 "
                                              "out, or ternary"},
                   .with_local_steps = {}},
};

}  // namespace

std::span<const CompressorKind> compressor_kinds() { return kinds; }

const CompressorKind& chosen_compressor(const CompressorOptions& options) {
  return *std::ranges::find_if(kinds.rbegin(), kinds.rend(),
                               [&](const CompressorKind& kind) { return kind.is_chosen(options); });
}

std::unique_ptr<GradientCompressor> make_compressor(const CompressorOptions& options,
                                                    std::size_t elements,
                                                    const GradientPlaces& places) {
  return chosen_compressor(options).make(options, elements, places);
}

Problems problems_of(const CompressorOptions& options, bool makes_local_steps) {
  Problems problems;
  bool another = false;
  const auto report = [&](const CompressorKind& kind, const CompressorClash& clash) {
    if (clash.reason.empty()) return;
    problems.push_back(
        {std::string(kind.setting), std::string(clash.reason), std::string(clash.remedy)});
  };
  for (const CompressorKind& kind : compressor_kinds().subspan(1)) {
    if (!kind.is_chosen(options)) continue;
    if (another || (!kind.takes_codec && options.codec != Codec::identity)) {
      report(kind, kind.with_another);
    }
    if (makes_local_steps) report(kind, kind.with_local_steps);
    another = true;
  }
  return problems;
}

}  // namespace gv
