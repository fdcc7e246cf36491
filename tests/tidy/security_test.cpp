// The tests that SECURITY.md and docs/faults.md name for each attack and each fault.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
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

/// The tests that the tables of a page name, as "folder: `a`, `b`; folder: `c`".
std::vector<NamedTest> tests_in_tables(const fs::path& page) {
  std::vector<NamedTest> tests;
  std::ifstream in(page);
  const std::regex of_folder(R"(([a-z]+): (`[^`]+`(?:, `[^`]+`)*))");
  const std::regex one("`([^`]+)`");
  const std::sregex_iterator end;
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("| ")) continue;
    for (std::sregex_iterator found(line.begin(), line.end(), of_folder); found != end; ++found) {
      const std::string names = (*found)[2];
      for (std::sregex_iterator name(names.begin(), names.end(), one); name != end; ++name) {
        tests.push_back({(*found)[1], (*name)[1]});
      }
    }
  }
  return tests;
}

/// The sources of a folder of tests as one line, in which strings that continue on the next line
/// are joined. Reads each folder once.
const std::string& joined_sources(const std::string& folder) {
  static std::map<std::string, std::string> folders;
  const auto [known, is_new] = folders.try_emplace(folder);
  if (!is_new) return known->second;
  std::string all;
  for (const auto& entry : fs::directory_iterator(root / "tests" / folder)) {
    if (is_source(entry.path())) all += text_of(entry.path());
  }
  return known->second = std::regex_replace(all, std::regex(R"("\s*\n\s*")"), "");
}

}  // namespace

TEST_CASE("the tests that the page on security names exist") {
  const std::vector<NamedTest> tests = tests_in_tables(root / "SECURITY.md");
  CHECK(tests.size() >= 80);
  for (const auto& [folder, name] : tests) {
    INFO(folder << ": " << name);
    CHECK(joined_sources(folder).find("TEST_CASE(\"" + name + "\"") != std::string::npos);
  }
}

TEST_CASE("the tests that the catalogue of faults names exist") {
  const std::vector<NamedTest> tests = tests_in_tables(root / "docs" / "faults.md");
  CHECK(tests.size() >= 60);
  for (const auto& [folder, name] : tests) {
    INFO(folder << ": " << name);
    // The page may give only the beginning of a test's name.
    CHECK(joined_sources(folder).find("TEST_CASE(\"" + name) != std::string::npos);
  }
}

}  // namespace gv::tidy
