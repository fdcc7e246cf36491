// Published algorithms by name: each is a few settings, on which a config can build.
#pragma once

#include <span>
#include <string_view>

namespace gv {

/// One of them.
struct NamedAlgorithm {
  std::string_view name;
  std::string_view family;    ///< The page of docs/algorithms it is on.
  std::string_view what;      ///< What it does, in a few words.
  std::string_view source;    ///< Who published it.
  std::string_view settings;  ///< As a config file would say it; what it leaves out has defaults.
};

/// All of them, by family.
std::span<const NamedAlgorithm> named_algorithms();

/// The one of that name; null if there is none.
const NamedAlgorithm* named_algorithm(std::string_view name);

}  // namespace gv
