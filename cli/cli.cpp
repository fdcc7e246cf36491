// Parses the command line and runs the command.
#include "cli/cli.hpp"

#include <fmt/format.h>
#include <sodium.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.hpp"
#include "peer/config/refusal.hpp"
#include "peer/config/toml.hpp"

namespace gv {

/// Throws the exception by which a callback tells the parser library to end the program.
void exit_with(int code) { throw CLI::RuntimeError(code); }

std::string not_a_whole_number(const std::string& text) {
  const bool is_one = !text.empty() && text.size() <= 20 &&
                      text.find_first_not_of("0123456789") == std::string::npos;
  return is_one ? "" : "not a whole number: " + text;
}

std::string not_a_port(const std::string& text) {
  const bool is_one =
      not_a_whole_number(text).empty() && text.size() <= 5 && std::stoul(text) <= 65535;
  return is_one ? "" : "not a port: 0 to 65535";
}

std::string not_a_folder(const std::string& text) {
  return text.empty() ? "not a folder: its name is empty" : "";
}

CLI::Validator number_from(double low, double high) {
  const auto refusal = [low, high](const std::string& text) {
    double value = 0;
    const bool is_inside = CLI::detail::lexical_cast(text, value) && low <= value && value <= high;
    return is_inside ? "" : fmt::format("Value {} not in range {:g} to {:g}", text, low, high);
  };
  return {refusal, CLI::Range(low, high).get_description()};
}

namespace {

/// Formats help texts, with the range of a number in words: "UINT from 0 to 9".
class HelpText : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    static const std::regex range("(UINT|INT|FLOAT):(UINT|INT|FLOAT) in \\[(\\S+) - (\\S+)\\]");
    return std::regex_replace(CLI::Formatter::make_option_opts(option), range, "$1 from $3 to $4");
  }
};

}  // namespace

/// Number of arguments of `launch` that make up the user's program, including the `--` before it. 0
/// if there is no program.
static int words_of_program(int argc, char** argv) {
  if (argc < 2 || std::string_view(argv[1]) != "launch") return 0;
  char** const end = argv + argc;
  return static_cast<int>(end - std::find(argv, end, std::string_view("--")));
}

/// The arguments after `--`.
static std::vector<std::string> program_behind(int argc, char** argv) {
  const int words = words_of_program(argc, argv);
  return words > 0 ? std::vector<std::string>(argv + argc - words + 1, argv + argc)
                   : std::vector<std::string>();
}

/// True for `help` and `version`, which mean the same as `--help` and `--version`.
static bool is_option_without_dashes(std::string_view word) {
  return word == "help" || word == "version";
}

/// Says why the first argument is not a command. Empty if it is a command or an option.
static Problems command_problems(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return {};
  // `help` and `version` are accepted, because other programs have them as commands.
  if (argc == 2 && is_option_without_dashes(argv[1])) return {};
  const std::string word = argv[1];
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
    if (names.back() == word) return {};
  }
  const auto nearest = nearest_name(word, names);
  return {{word, "no such command",
           (nearest ? "the nearest is " + *nearest + "; " : "") + "grapevine --help lists all"}};
}

int run_command_line(int argc, char** argv, const HostHooks& hooks) {
  if (sodium_init() < 0) {
    fmt::print(stderr, "the system's source of randomness does not work\n");
    return 1;
  }
  ::umask(077);
  CLI::App app{"Grapevine trains one model on many unlike machines with no master."};
  app.formatter(std::make_shared<HelpText>());  // Commands that are added later inherit it.
  app.require_subcommand(1);
  app.set_version_flag("--version", GRAPEVINE_VERSION);
  add_create(app, hooks);
  add_join(app, hooks);
  add_invite(app);
  add_revoke(app);
  add_keygen(app);
  add_peer(app, hooks);
  add_launch(app, program_behind(argc, argv));
  add_sim(app);
  add_env(app);
  add_status(app);
  add_ledger(app);
  add_switch(app);
  add_topology(app);
  add_algorithms(app);
  add_plan(app);
  add_eval(app);
  add_merge(app);
  add_import(app);
  add_export(app);
  add_doctor(app);
  add_explain(app);
  add_bench(app);
  add_completions(app);
  if (const Problems problems = command_problems(app, argc, argv); !problems.empty()) {
    return fail(problems);
  }
  try {
    if (argc == 2 && is_option_without_dashes(argv[1])) {
      const std::string option = "--" + std::string(argv[1]);
      const char* const words[] = {argv[0], option.c_str()};
      app.parse(2, words);
    }
    app.parse(argc - words_of_program(argc, argv), argv);
  } catch (const CLI::RuntimeError& error) {
    return error.get_exit_code();
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    const bool has_extra_words =
        error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
    if (has_extra_words && std::string_view(argv[1]) == "launch") {
      fmt::print(stderr, "If these words are a program to launch, put -- before the program.\n");
    }
    return code == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "grapevine: {}\n", error.what());
    return 1;
  }
  return 0;
}

}  // namespace gv
