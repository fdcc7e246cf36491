// Completion scripts: each of them covers the whole parser, and bash completes as its script says.
#include "cli/completion_scripts.hpp"

#include <CLI/CLI.hpp>
#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

namespace gv {
namespace {

/// A parser with every kind of option that the scripts treat differently.
std::unique_ptr<CLI::App> small_parser() {
  auto app = std::make_unique<CLI::App>("Grows vines.", "grapevine");
  app->set_version_flag("--version", "1");
  auto* grow = app->add_subcommand("grow", "Grow one vine; in any soil");
  grow->add_option("-l,--length", "It's the length [m]: a number; default: 3")->expected(1);
  grow->add_option("--leaf", "Colour of a leaf")->check(CLI::IsMember({"green", "red"}));
  grow->add_flag("--quiet")->description("No noise");
  grow->add_flag("--secret")->group("");
  auto* press = app->add_subcommand("press", "Press");
  press->add_subcommand("wine", "For wine")
      ->add_option("YEAR", "Year")
      ->check(CLI::IsMember({"1", "2"}));
  app->add_subcommand("hidden")->group("");
  return app;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// The completions that bash offers after these words. The last word is still being typed.
std::string offered(const std::string& script, const std::string& words) {
  std::array<char, 32> name{"/tmp/gv-completion-XXXXXX"};
  const int file = ::mkstemp(name.data());
  REQUIRE(file >= 0);
  std::ofstream(name.data()) << script << "COMP_WORDS=(grapevine " << words << ")\n"
                             << "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_grapevine\n"
                             << "echo \"${COMPREPLY[*]}\"\n";
  const std::string command = std::string("bash --norc --noprofile ") + name.data() + " 2>&1";
  std::FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string text;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text += static_cast<char>(c);
  ::pclose(pipe);
  ::close(file);
  std::remove(name.data());
  return text;
}

}  // namespace

TEST_CASE("bash completes commands and options and their words", "[unit]") {
  const std::string script = completion_script(*small_parser(), "bash");
  CHECK(offered(script, "''") == "grow press\n");
  CHECK(offered(script, "g") == "grow\n");
  CHECK(offered(script, "--v") == "--version\n");
  CHECK(offered(script, "grow --l") == "--length --leaf\n");
  CHECK(offered(script, "grow --leaf ''") == "green red\n");
  CHECK(offered(script, "grow --leaf red --q") == "--quiet\n");
  CHECK(offered(script, "press ''") == "wine\n");
  CHECK(offered(script, "press wine ''") == "1 2\n");
  // Our script offers nothing where a file name is expected. Bash then offers files itself.
  CHECK(offered(script, "grow ''") == "\n");
  CHECK(offered(script, "grow --length ''") == "\n");
  CHECK(has(script, "complete -o default -F _grapevine grapevine"));
}

TEST_CASE("zsh gets a function for each command", "[unit]") {
  const std::string script = completion_script(*small_parser(), "zsh");
  CHECK(script.starts_with("#compdef grapevine\n"));
  CHECK(has(script, R"('--length=[It'\''s the length \[m\]\: a number]:value:_files')"));
  CHECK(has(script, "'--leaf=[Colour of a leaf]:value:(green red)'"));
  CHECK(has(script, "'--quiet[No noise]'"));
  CHECK(has(script, "'grow:Grow one vine'"));
  CHECK(has(script, "_grapevine_press_wine() {"));
  CHECK(has(script, "'*:word:(1 2)'"));
}

TEST_CASE("fish gets a line for each option", "[unit]") {
  const std::string script = completion_script(*small_parser(), "fish");
  CHECK(has(script, R"(-n '__fish_seen_subcommand_from grow' -s l -l length -r -d 'It\'s the)"));
  CHECK(has(script, "-l leaf -x -a 'green red' -d 'Colour of a leaf'"));
  CHECK(has(script, "-n '__fish_use_subcommand' -f -a grow -d 'Grow one vine'"));
  CHECK(has(script,
            "-n '__fish_seen_subcommand_from press; and not __fish_seen_subcommand_from "
            "wine' -f -a wine"));
}

TEST_CASE("what has no help is not completed and other shells get no script", "[unit]") {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const std::string script = completion_script(*small_parser(), shell);
    CHECK_FALSE(has(script, "hidden"));
    CHECK_FALSE(has(script, "secret"));
  }
  CHECK(completion_script(*small_parser(), "sh").empty());
}

}  // namespace gv
