// The table of all gradient compressors, and the settings that select one of them.
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

/// The places of matrices in a gradient.
struct GradientPlaces {
  std::vector<MatrixPlace> matrices;  ///< The places of all matrices, ascending and disjoint.
  std::vector<DensePlace> dense;      ///< The dense layers whose gradients can be sent as
                                      ///< sufficient factors.
};

/// Explains why a compressor cannot be combined with another setting, and how to resolve the
/// conflict. Empty if the two can be combined.
struct CompressorClash {
  std::string_view reason;
  std::string_view remedy;
};

/// A compressor's row in the table.
struct CompressorKind {
  std::string_view name;
  std::string_view
      setting;  ///< The setting that selects the compressor. Empty for whole gradients.
  bool (*is_chosen)(const CompressorOptions&);
  std::unique_ptr<GradientCompressor> (*make)(const CompressorOptions&, std::size_t elements,
                                              const GradientPlaces&);
  std::string_view model_has;  ///< The property that a model needs for this compressor. Empty if
                               ///< any model will do.
  bool takes_codec = true;  ///< True if the compressor's values may be sent in any codec.
  /// Why this compressor cannot be combined with one above it in the table, or with an unsupported
  /// codec.
  CompressorClash with_another;
  CompressorClash with_local_steps;
};

/// The table of compressors. The first row is for whole gradients.
std::span<const CompressorKind> compressor_kinds();

/// The row that the options select. If they name several compressors, the last row wins.
const CompressorKind& chosen_compressor(const CompressorOptions& options);

/// Makes the chosen compressor for gradients with this many elements.
std::unique_ptr<GradientCompressor> make_compressor(const CompressorOptions& options,
                                                    std::size_t elements,
                                                    const GradientPlaces& places = {});

/// Lists the combinations of settings that do not work, each under the name of the compressor's
/// setting.
Problems problems_of(const CompressorOptions& options, bool makes_local_steps);

}  // namespace gv
