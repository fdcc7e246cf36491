// A peer's name, given by an operator or taken from its machine.
#pragma once

#include <string>
#include <string_view>

#include "base/problems.hpp"

namespace gv {

/// Returns the name of this machine, or "peer" if that name is not a valid peer name.
std::string machine_name();

/// Returns a problem with `--name` if the given name is not a valid peer name.
Problems problems_of_name(std::string_view name);

}  // namespace gv
