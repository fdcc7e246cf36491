// The status table of a document with texts from outside.
#include "peer/host/status.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>

namespace gv {

TEST_CASE("control characters in a status document do not reach the terminal", "[unit]") {
  const std::string hostile = "a\033[2J\nb";
  const nlohmann::json document = {
      {"self", {{"name", hostile}, {"id", hostile}}},
      {"phase", hostile},
      {"details", {hostile}},
      {"members", {{{"name", hostile}, {"state", hostile}, {"address", hostile}}}},
      {"refusals", {{{"t", 1}, {"event", hostile}, {"peer", hostile}, {"why", hostile}}}},
      {"quarantined", {{{"seconds", 1}, {"peer", hostile}, {"why", hostile}}}}};
  const std::string table = status_table(document.dump());
  CHECK(table.find("a\\x1b[2J\\x0ab") != std::string::npos);
  CHECK(std::ranges::none_of(table, [](char c) { return c >= 0 && c < ' ' && c != '\n'; }));
}

TEST_CASE("the status of a peer that learns targets has a loss and no accuracy", "[unit]") {
  nlohmann::json document = {{"step", 3}, {"loss", 0.25}};
  CHECK(status_table(document.dump()).find("loss 0.2500  learning rate") != std::string::npos);
  document["accuracy"] = 0.5;
  CHECK(status_table(document.dump()).find("loss 0.2500  accuracy 50.00 %  learning rate") !=
        std::string::npos);
}

}  // namespace gv
