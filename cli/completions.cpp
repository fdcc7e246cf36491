// `grapevine completions`: prints a script that completes command lines in a shell.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cli/commands.hpp"
#include "cli/completion_scripts.hpp"

namespace gv {

void add_completions(CLI::App& app) {
  const auto shell = std::make_shared<std::string>();
  auto* command =
      app.add_subcommand("completions", "Print a script that completes these commands in a shell");
  command->add_option("SHELL", *shell, "The shell: bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->footer(
      "Example:\n  eval \"$(grapevine completions bash)\"\n"
      "  grapevine completions fish > ~/.config/fish/completions/grapevine.fish");
  command->callback([&app, shell] {
    fmt::print("{}", completion_script(app, *shell));
    exit_with(0);
  });
}

}  // namespace gv
