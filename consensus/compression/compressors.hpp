// All gradient compressors in one table, and the settings that choose one of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/problems.hpp"
#include "consensus/compression/compressor_options.hpp"
#include "consensus/compression/gradient_compressor.hpp"
#include "consensus/compression/power_sgd.hpp"
#include "consensus/compression/sufficient_factors.hpp"

namespace gv {

/// Where matrices lie in a gradient.
struct GradientPlaces {
  std::vector<MatrixPlace> matrices;  ///< All of them, ascending and disjoint.
  std::vector<DensePlace> dense;      ///< Dense layers whose gradients have sufficient factors.
};

/// Why a compressor does not go with another setting, and what to do. Empty: it does.
struct CompressorClash {
  std::string_view reason;
  std::string_view remedy;
};

/// A row of the table.
struct CompressorKind {
  std::string_view name;
  std::string_view setting;  ///< The setting that chooses it; empty for whole gradients.
  bool (*is_chosen)(const CompressorOptions&);
  std::unique_ptr<GradientCompressor> (*make)(const CompressorOptions&, std::size_t elements,
                                              const GradientPlaces&);
  std::string_view model_has;    ///< What a model must have for it, if anything.
  bool takes_codec = true;       ///< Its values may travel in any codec.
  CompressorClash with_another;  ///< With compressors above it, or with a codec it does not take.
  CompressorClash with_local_steps;
};

/// The table. The first row is for whole gradients.
std::span<const CompressorKind> compressor_kinds();

/// The row that the options choose: the last that they name.
const CompressorKind& chosen_compressor(const CompressorOptions& options);

/// The chosen compressor, for gradients of that many elements.
std::unique_ptr<GradientCompressor> make_compressor(const CompressorOptions& options,
                                                    std::size_t elements,
                                                    const GradientPlaces& places = {});

/// Settings that do not go together, each by the name of the compressor's setting.
Problems problems_of(const CompressorOptions& options, bool makes_local_steps);

}  // namespace gv
