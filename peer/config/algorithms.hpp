// Published algorithms by name: each is a few settings that a config can build on.
#pragma once

#include <span>
#include <string_view>

namespace gv {

/// A published algorithm.
struct NamedAlgorithm {
  std::string_view name;
  std::string_view family;    ///< The page of docs/algorithms it is on.
  std::string_view what;      ///< Short description.
  std::string_view source;    ///< Its publication.
  std::string_view settings;  ///< Lines of a config file; the rest has its defaults.
};

/// All of them, by family.
std::span<const NamedAlgorithm> named_algorithms();

/// The one of that name; null if there is none.
const NamedAlgorithm* named_algorithm(std::string_view name);

}  // namespace gv
