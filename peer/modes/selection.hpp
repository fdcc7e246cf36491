// How a population chooses which settings live on.
#pragma once

#include <string_view>

#include "base/names.hpp"

namespace gv {

enum class Selection {
  truncation,  ///< One of the worst fifth copies one of the best (Jaderberg 2017).
  halving,     ///< One of the worse half copies one of the better, as it is (Jamieson 2016).
  none,        ///< No peer copies another: random search (Bergstra and Bengio 2012).
};
inline constexpr auto selection_names = names_of<Selection>({"truncation", "halving", "none"});
constexpr std::string_view to_string(Selection selection) { return selection_names[selection]; }

}  // namespace gv
