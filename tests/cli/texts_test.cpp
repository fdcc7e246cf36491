// Names that are almost right, and the texts of options that are not numbers.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "base/problems.hpp"
#include "cli/commands.hpp"
#include "peer/config/config.hpp"
#include "peer/config/toml.hpp"

namespace gv {

TEST_CASE("only a name that is near is offered", "[unit]") {
  struct Row {
    std::string name;
    std::vector<std::string> known;
    std::string nearest;  ///< Empty if none is near.
  };
  const std::vector<Row> rows{
      {"help", {"peer", "eval", "sim"}, ""},
      {"version", {"join", "revoke", "explain"}, ""},
      {"path", {"kind", "mean"}, ""},
      {"x", {"kind", "loss"}, ""},
      {"CNN", {"mlp", "lenet", "cnn"}, "cnn"},
      {"launhc", {"launch", "plan"}, "launch"},
      {"rnig", {"ring", "star"}, "ring"},
      {"alreduce", {"allreduce", "mixing"}, "allreduce"},
      {"mixing.gama", {"mixing.gamma", "mixing.kind"}, "mixing.gamma"},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    CHECK(nearest_name(row.name, row.known).value_or("") == row.nearest);
    const std::string remedy = near_remedy(row.name, row.known);
    CHECK((remedy.find("the nearest valid one is " + row.nearest) == 0) != row.nearest.empty());
  }
}

TEST_CASE("a config without a name that is near offers none", "[unit]") {
  const auto said = [](const std::string& text) {
    std::string lines;
    for (const Problem& problem : parse_config_text(text, "a.toml").problems) {
      lines += to_string(problem) + "\n";
    }
    return lines;
  };
  CHECK(said("[data]\npath = \"a\"\n") ==
        "a.toml:2: data.path: unknown key; remove it: no valid one is near\n");
  CHECK(said("[zzzzzz]\na = 1\n") ==
        "a.toml:1: [zzzzzz]: unknown section; remove it: no valid one is near\n");
  CHECK_THAT(said("[model]\nkind = \"CNN\"\n"), Catch::Contains("the nearest is \"cnn\""));
  CHECK_THAT(said("[model]\nkind = \"qqqqqq\"\n"), Catch::Contains("; write one of "));
  CHECK_THAT(said("[train]\nbatch = 32.5\n"), Catch::Contains("32.5 is not a whole number"));
}

TEST_CASE("a text that is no TOML is not read to its end", "[unit]") {
  std::string prose;
  for (int i = 0; i < 40; ++i) prose += "These words are no setting.\n";
  Problems problems;
  CHECK(read_toml(prose, "README.md", problems).empty());
  REQUIRE(problems.size() == 6);
  CHECK(problems.back().reason == "nothing in it is TOML so far, so the rest is not read");
}

TEST_CASE("a config that is there and no file is named as such", "[unit]") {
  for (const char* path : {"-", "/dev/null"}) {
    const Problems problems = parse_config_file(path).problems;
    REQUIRE(problems.size() == 1);
    CHECK(problems.front().reason == "a config must be a regular file");
  }
}

TEST_CASE("an option for a number or a port takes nothing else", "[unit]") {
  for (const char* text : {"0", "7000", "65535"}) CHECK(not_a_port(text).empty());
  for (const char* text : {"65536", "70000", "-1", "", "ssh", "1.5", "99999999999999999999"}) {
    INFO(text);
    CHECK(not_a_port(text) == "not a port: 0 to 65535");
  }
  CHECK(not_a_whole_number("12").empty());
  CHECK(not_a_whole_number("-1") == "not a whole number: -1");
}

TEST_CASE("no option for a number with a fraction takes what is no number", "[unit]") {
  CHECK(number_from(0.5, 2)("0.5").empty());
  CHECK(number_from(0.5, 2)("2").empty());
  CLI::App app;
  for (const auto& add : {add_algorithms, add_bench, add_doctor, add_eval, add_plan, add_sim,
                          add_switch, add_topology}) {
    add(app);
  }
  std::size_t options = 0;
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    for (CLI::Option* option : command->get_options()) {
      if (!option->get_type_name().starts_with("FLOAT")) continue;
      ++options;
      INFO(command->get_name() << " " << option->get_name());
      for (const std::string text : {"nan", "-nan", "inf", "-1e-9", "x"}) {
        const std::string refusal = (*option->get_validator(0))(text);
        CHECK(refusal.starts_with("Value " + text + " not in range "));
      }
    }
  }
  CHECK(options == 9);
}

TEST_CASE("an empty name of a folder is refused by every command with --folder", "[unit]") {
  const auto said = [](CLI::App& app, std::vector<std::string> words) {
    std::ranges::reverse(words);  // The parser takes the last word first.
    try {
      app.parse(words);
    } catch (const CLI::ValidationError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  CLI::App app;
  add_create(app, {});
  add_join(app, {});
  add_peer(app, {});
  add_launch(app, {});
  add_sim(app);
  const std::vector<std::vector<std::string>> commands{
      {"create", "--listen", ":0"}, {"join", "ticket"}, {"peer"}, {"launch"}, {"sim"}};
  for (std::vector<std::string> words : commands) {
    INFO(words.front());
    words.insert(words.end(), {"--folder", ""});
    CHECK(said(app, words) == "--folder: not a folder: its name is empty");
  }
}

TEST_CASE("the help of create and of join says which folder each takes by default", "[unit]") {
  CLI::App app;
  add_create(app, {});
  add_join(app, {});
  CHECK_THAT(app.get_subcommand("create")->help(), Catch::Contains("run.folder/NAME"));
  CHECK_THAT(app.get_subcommand("join")->help(), Catch::Contains("grapevine-NAME"));
}

}  // namespace gv
