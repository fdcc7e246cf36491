// Published algorithms by name. Each is a set of settings that a config can build on.
#pragma once

#include <span>
#include <string_view>

namespace gv {

/// A published algorithm.
struct NamedAlgorithm {
  std::string_view name;
  std::string_view family;    ///< The page in docs/algorithms that describes it.
  std::string_view what;      ///< A short description.
  std::string_view source;    ///< The publication's first author and year; may be empty.
  std::string_view settings;  ///< Lines of a config file. All other settings keep their defaults.
};

/// All algorithms, grouped by family.
std::span<const NamedAlgorithm> named_algorithms();

/// The algorithm with that name; null if there is none.
const NamedAlgorithm* named_algorithm(std::string_view name);

}  // namespace gv
