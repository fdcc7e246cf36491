// Scripts that complete grapevine's command line in a shell, generated from the parser.
#pragma once

#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace gv {

/// Returns the script for `shell`, which is bash, zsh or fish; an empty string for any other shell.
/// The script completes commands, options and the values of options; everywhere else it completes
/// file names.
std::string completion_script(const CLI::App& app, std::string_view shell);

}  // namespace gv
