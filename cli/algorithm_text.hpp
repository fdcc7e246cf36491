// What people are shown of the named algorithms: all in a table, or one with what it costs.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gv {

/// One line for each, by family.
std::string algorithms_table();

/// One of them: what it is, its settings as a config would have them, and for so many peers and
/// numbers in a model what a peer keeps and sends. Why it does not fit so many peers, if so. The
/// name must be known.
std::string algorithm_report(std::string_view name, std::size_t peers, double parameters);

}  // namespace gv
