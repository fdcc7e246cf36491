// Text from elsewhere in a form that does nothing to a terminal or a log.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gv {

/// `text` with control characters written as \xNN, so that it stays on its line and moves no
/// cursor. Of a text longer than `bytes_max` only the beginning, with "..." after it.
std::string printable(std::string_view text, std::size_t bytes_max = std::string_view::npos);

}  // namespace gv
