// Texts about the named algorithms: all in a table, or one with its cost.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gv {

/// One line for each, by family.
std::string algorithms_table();

/// One algorithm: its description, its settings as in a config, and a peer's memory and traffic
/// with `peers` peers and a model of `parameters` numbers. If it does not fit that number of peers,
/// it says why. The name must be known.
std::string algorithm_report(std::string_view name, std::size_t peers, double parameters);

}  // namespace gv
