// Scripts that complete grapevine's command line in a shell, written from the parser itself.
#pragma once

#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace gv {

/// The script for `shell`: bash, zsh or fish; an empty string for any other. It completes commands,
/// options, the values of options, and files everywhere else.
std::string completion_script(const CLI::App& app, std::string_view shell);

}  // namespace gv
