// Makes text from outside harmless to terminals and logs.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gv {

/// Returns `text` with control characters written as \xNN, so that it stays on one line and cannot
/// move the cursor. Text longer than `bytes_max` is cut there, and "..." is appended.
std::string printable(std::string_view text, std::size_t bytes_max = std::string_view::npos);

}  // namespace gv
