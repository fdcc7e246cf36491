// The tests that SECURITY.md names for each attack.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

#include "tests/tidy/sources.hpp"

namespace gv::tidy {
namespace {

struct NamedTest {
  std::string folder;
  std::string name;
};

std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<NamedTest> tests_in_table() {
  std::vector<NamedTest> tests;
  const std::string page = text_of(root / "SECURITY.md");
  const std::regex cell(R"(\| (\w+): `([^`]+)` \|\n)");
  for (std::sregex_iterator row(page.begin(), page.end(), cell), end; row != end; ++row) {
    tests.push_back({(*row)[1], (*row)[2]});
  }
  return tests;
}

/// The sources of a folder of tests as one line, in which strings that continue on the next line
/// are joined.
std::string joined_sources(const std::string& folder) {
  std::string all;
  for (const auto& entry : fs::directory_iterator(root / "tests" / folder)) {
    if (is_source(entry.path())) all += text_of(entry.path());
  }
  return std::regex_replace(all, std::regex(R"("\s*\n\s*")"), "");
}

}  // namespace

TEST_CASE("the tests that the page on security names exist") {
  const std::vector<NamedTest> tests = tests_in_table();
  CHECK(tests.size() >= 15);
  for (const auto& [folder, name] : tests) {
    INFO(folder << ": " << name);
    CHECK(joined_sources(folder).find("TEST_CASE(\"" + name + "\"") != std::string::npos);
  }
}

}  // namespace gv::tidy
