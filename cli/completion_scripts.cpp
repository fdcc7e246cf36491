// Walks the parser's commands and options, and writes them in the language of each shell.
#include "cli/completion_scripts.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <vector>

namespace gv {
namespace {

struct CompletedOption {
  std::vector<std::string> long_names;  ///< Without dashes, like `short_names`.
  std::vector<std::string> short_names;
  std::string description;
  std::vector<std::string> words;  ///< The option's possible values. Empty if it takes any value.
  bool has_value = false;
  bool may_repeat = false;

  /// All names of the option, with dashes.
  std::vector<std::string> spellings() const {
    std::vector<std::string> all;
    for (const std::string& name : short_names) all.push_back("-" + name);
    for (const std::string& name : long_names) all.push_back("--" + name);
    return all;
  }
};

struct CompletedCommand {
  std::string path;  ///< Names of all commands from the top to this one, with a blank before each.
  std::string name;
  std::string description;
  std::vector<CompletedOption> options;
  /// Values of the first positional argument. Empty if it takes any.
  std::vector<std::string> words;
  std::vector<CompletedCommand> commands;
};

/// The part of a description before the first semicolon, which fits on one line.
std::string brief(const std::string& description) {
  return description.substr(0, description.find(';'));
}

/// The values that an option's check allows, which the parser shows as TEXT:{bash,zsh,fish}. Empty
/// if it allows any.
std::vector<std::string> allowed_words(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t open = type.find(":{"), close = type.find('}');
  if (open == std::string::npos || close == std::string::npos) return {};
  return CLI::detail::split(type.substr(open + 2, close - open - 2), ',');
}

CompletedCommand completed(const CLI::App& app, const std::string& path) {
  CompletedCommand command{
      .path = path, .name = app.get_name(), .description = brief(app.get_description())};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    if (option->nonpositional()) {
      command.options.push_back({.long_names = option->get_lnames(),
                                 .short_names = option->get_snames(),
                                 .description = brief(option->get_description()),
                                 .words = allowed_words(*option),
                                 .has_value = option->get_items_expected_max() > 0,
                                 .may_repeat = option->get_items_expected_max() > 1});
    } else if (command.words.empty()) {
      command.words = allowed_words(*option);
    }
  }
  for (const CLI::App* below : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (below->get_group().empty()) continue;
    command.commands.push_back(completed(*below, path + " " + below->get_name()));
  }
  return command;
}

/// Calls `visit` with the command and with every command below it.
template <class Visit>
void walk(const CompletedCommand& command, const Visit& visit) {
  visit(command);
  for (const CompletedCommand& below : command.commands) walk(below, visit);
}

std::vector<std::string> names(const std::vector<CompletedCommand>& commands) {
  std::vector<std::string> all;
  for (const CompletedCommand& command : commands) all.push_back(command.name);
  return all;
}

std::string with_each(std::string text, std::string_view characters, std::string_view before) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (characters.find(text[i]) == std::string_view::npos) continue;
    text.insert(i, before);
    i += before.size();
  }
  return text;
}

/// The script for Bash. It finds the command from the words typed so far, and checks whether the
/// previous word is an option that takes a value.
std::string bash_script(const CompletedCommand& program) {
  std::string paths, values, words;
  walk(program, [&](const CompletedCommand& command) {
    if (!command.path.empty())
      paths += fmt::format("{}'{}'", paths.empty() ? "" : " | ", command.path);
    std::vector<std::string> options;
    for (const CompletedOption& option : command.options) {
      for (const std::string& spelling : option.spellings()) {
        options.push_back(spelling);
        if (!option.has_value) continue;
        values += fmt::format("    '{} {}') words='{}' ;;\n", command.path, spelling,
                              fmt::join(option.words, " "));
      }
    }
    words += fmt::format("      '{}|-'*) words='{}' ;;\n", command.path, fmt::join(options, " "));
    const std::vector<std::string> others =
        command.commands.empty() ? command.words : names(command.commands);
    if (others.empty()) return;
    words += fmt::format("      '{}|'*) words='{}' ;;\n", command.path, fmt::join(others, " "));
  });
  return fmt::format(R"script(# Completes grapevine in bash: eval "$(grapevine completions bash)"
_grapevine() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} path= words= word
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$path $word" in
      {}) path="$path $word" ;;
    esac
  done
  case "$path $before" in
{}    *)
      case "$path|$current" in
{}      esac
      ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}}
complete -o default -F _grapevine grapevine
)script",
                     paths, values, words);
}

/// The name of a command's function in the script for Zsh.
std::string zsh_function(const CompletedCommand& command) {
  std::string name = "_grapevine" + command.path;
  std::ranges::replace(name, ' ', '_');
  return name;
}

std::string zsh_quoted(const std::string& text) {
  std::string quoted;
  for (const char c : text) quoted += c == '\'' ? std::string(R"('\'')") : std::string(1, c);
  return "'" + quoted + "'";
}

/// The script for Zsh. It has a function for each command, which passes the command's options to
/// _arguments.
std::string zsh_script(const CompletedCommand& program) {
  std::string script = "#compdef grapevine\n# Completes grapevine in zsh.\n";
  walk(program, [&](const CompletedCommand& command) {
    script += zsh_function(command) + "() {\n  _arguments -S";
    for (const CompletedOption& option : command.options) {
      const std::string described = with_each(option.description, "[]:\\", "\\");
      for (const std::string& spelling : option.spellings()) {
        std::string spec = (option.may_repeat ? "*" : "") + spelling;
        if (option.has_value) spec += spelling.starts_with("--") ? "=" : "+";
        spec += "[" + described + "]";
        if (option.has_value) {
          spec += option.words.empty() ? ":value:_files"
                                       : fmt::format(":value:({})", fmt::join(option.words, " "));
        }
        script += " \\\n    " + zsh_quoted(spec);
      }
    }
    if (command.commands.empty()) {
      const std::string words = fmt::format("*:word:({})", fmt::join(command.words, " "));
      script += " \\\n    " + zsh_quoted(command.words.empty() ? "*:file:_files" : words) + "\n}\n";
      return;
    }
    script += " \\\n    '1:command:->command' '*::argument:->argument' && return\n";
    script += "  case $state in\n    command)\n      local -a commands=(\n";
    std::string calls;
    for (const CompletedCommand& below : command.commands) {
      const std::string described = with_each(below.description, ":\\", "\\");
      script += "        " + zsh_quoted(below.name + ":" + described) + "\n";
      calls += fmt::format("        {}) {} ;;\n", below.name, zsh_function(below));
    }
    script += "      )\n      _describe command commands\n      ;;\n    argument)\n";
    script += "      case $words[1] in\n" + calls + "      esac\n      ;;\n  esac\n}\n";
  });
  return script + "_grapevine \"$@\"\n";
}

/// The script for Fish. It has a line for each option and command, with the commands that must
/// precede it.
std::string fish_script(const CompletedCommand& program) {
  std::string script = "# Completes grapevine in fish.\n";
  walk(program, [&](const CompletedCommand& command) {
    std::string after;
    for (const std::string& name : CLI::detail::split(command.path, ' ')) {
      if (name.empty()) continue;
      after += (after.empty() ? "" : "; and ") + ("__fish_seen_subcommand_from " + name);
    }
    const auto line = [&](const std::string& when, const std::string& what,
                          const std::string& described) {
      script += fmt::format("complete -c grapevine -n '{}' {} -d '{}'\n", when, what,
                            with_each(described, "'\\", "\\"));
    };
    const std::string here = after.empty() ? "__fish_use_subcommand" : after;
    for (const CompletedOption& option : command.options) {
      std::string what;
      for (const std::string& name : option.short_names) what += "-s " + name + " ";
      for (const std::string& name : option.long_names) what += "-l " + name + " ";
      if (!option.words.empty()) what += fmt::format("-x -a '{}'", fmt::join(option.words, " "));
      if (option.has_value && option.words.empty()) what += "-r";
      line(here, what, option.description);
    }
    if (!command.words.empty())
      line(here, fmt::format("-f -a '{}'", fmt::join(command.words, " ")), "");
    for (const CompletedCommand& below : command.commands) {
      const std::string none = fmt::format("; and not __fish_seen_subcommand_from {}",
                                           fmt::join(names(command.commands), " "));
      line(after.empty() ? here : after + none, "-f -a " + below.name, below.description);
    }
  });
  return script;
}

}  // namespace

std::string completion_script(const CLI::App& app, std::string_view shell) {
  const CompletedCommand program = completed(app, "");
  if (shell == "bash") return bash_script(program);
  if (shell == "zsh") return zsh_script(program);
  if (shell == "fish") return fish_script(program);
  return "";
}

}  // namespace gv
