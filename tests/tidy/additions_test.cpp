// CONTRIBUTING.md lists, for each kind of addition, the files that it touches.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/tidy/sources.hpp"

namespace gv::tidy {
namespace {

/// A row of the table: the kind of addition, the word that names an example, and the files that
/// contain this word.
struct Addition {
  std::string kind;
  std::string word;
  std::set<std::string> files;
};

std::vector<Addition> listed_additions() {
  std::vector<Addition> rows;
  std::ifstream in(root / "CONTRIBUTING.md");
  const std::regex row(R"(\| ([\w -]+) \| `(\w+)` \| (.*) \|)");
  const std::regex quoted("`([^`]+)`");
  for (std::string line; std::getline(in, line);) {
    std::smatch cells;
    if (!std::regex_match(line, cells, row)) continue;
    const std::string files = cells[3];
    Addition addition{cells[1], cells[2], {}};
    for (std::sregex_iterator file(files.begin(), files.end(), quoted), end; file != end; ++file) {
      addition.files.insert((*file)[1]);
    }
    rows.push_back(std::move(addition));
  }
  return rows;
}

bool has_word(const std::string& text, const std::string& word) {
  return std::regex_search(text, std::regex("\\b" + word + "\\b"));
}

bool is_product(const std::string& path) { return !path.starts_with("tests/"); }

/// Product files that contain the word in code, not in comments.
std::set<std::string> product_files_with(const std::string& word) {
  std::set<std::string> found;
  for (const Finding& line : lines_matching("\\b" + word + "\\b", is_product)) {
    found.insert(line.place.substr(0, line.place.find(':')));
  }
  return found;
}

}  // namespace

TEST_CASE("the files listed for an addition are those of the example that exists") {
  const std::vector<Addition> additions = listed_additions();
  std::set<std::string> kinds;
  for (const Addition& addition : additions) {
    kinds.insert(addition.kind);
    std::vector<Finding> wrong;
    const std::set<std::string> needed = product_files_with(addition.word);
    for (const std::string& file : needed) {
      if (!addition.files.contains(file)) wrong.push_back({file, "has the word but is not listed"});
    }
    for (const std::string& file : addition.files) {
      if (needed.contains(file)) continue;
      std::ifstream in(root / file);
      const std::string text{std::istreambuf_iterator<char>(in), {}};
      const bool is_beside = !is_product(file) || !is_source(file);
      if (!is_beside || !has_word(text, addition.word)) {
        wrong.push_back({file, "is listed but does not have the word"});
      }
    }
    INFO(addition.kind << ", like " << addition.word << "\n" << listed(wrong));
    CHECK(wrong.empty());
  }
  CHECK(kinds == std::set<std::string>{"all-reduce algorithm", "command", "compressor of gradients",
                                       "engine that starts peers", "layer", "message",
                                       "mixing rule", "mode", "optimiser", "setting"});
}

}  // namespace gv::tidy
