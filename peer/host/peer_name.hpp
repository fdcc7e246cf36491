// The name of a peer that an operator gives, or that its machine has.
#pragma once

#include <string>
#include <string_view>

#include "base/problems.hpp"

namespace gv {

/// The name of this machine, or "peer" if a peer cannot be called like that.
std::string machine_name();

/// A problem with `--name` if a peer cannot be called like that.
Problems problems_of_name(std::string_view name);

}  // namespace gv
