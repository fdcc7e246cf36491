// How files begin, what must not be left in them, and where they must be named.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/tidy/sources.hpp"

namespace gv::tidy {

TEST_CASE("tests wait for conditions and never sleep") {
  const auto found =
      lines_matching(R"(sleep_for|sleep_until|\busleep\(|\bsleep\()",
                     [](const std::string& path) { return path.starts_with("tests/"); });
  INFO(listed(found));
  CHECK(found.empty());
}

TEST_CASE("code asks for a fact's type and never for its name") {
  // Finds names as literals anywhere in the product, except in the file that gives facts their
  // names.
  const std::string texts = "peer/node/facts.cpp";
  const auto named = std::ranges::find(sources(), texts, &SourceFile::path);
  REQUIRE(named != sources().end());
  std::string text;
  for (const std::string& line : named->lines) text += line + "\n";
  std::set<std::string> names;
  const std::regex info(R"re(\.info = \{"(\w+)")re");
  for (std::sregex_iterator match(text.begin(), text.end(), info), end; match != end; ++match) {
    names.insert((*match)[1]);
  }
  REQUIRE(names.size() > 50);
  std::vector<Finding> found;
  const std::regex literal(R"re("(\w+)")re");
  for (const SourceFile& file : sources()) {
    if (file.path == texts || file.path.starts_with("tests/")) continue;
    for (const std::string& line : file.lines) {
      for (std::sregex_iterator match(line.begin(), line.end(), literal), end; match != end;
           ++match) {
        if (names.contains((*match)[1])) found.push_back({file.path, line});
      }
    }
  }
  INFO(listed(found));
  CHECK(found.empty());
}

TEST_CASE("every source begins with a sentence about itself and headers guard themselves") {
  std::vector<Finding> found;
  for (const SourceFile& file : sources()) {
    const bool sentence = !file.lines.empty() && file.lines.front().starts_with("// ") &&
                          file.lines.front().size() > 15;
    if (!sentence) found.push_back({file.path, "does not begin with a sentence"});
    const bool guarded = std::ranges::find(file.lines, "#pragma once") != file.lines.end();
    if (file.path.ends_with(".hpp") && !guarded)
      found.push_back({file.path, "has no #pragma once"});
  }
  INFO(listed(found));
  CHECK(found.empty());
}

TEST_CASE("what a bench takes from another one is there") {
  // Some benchmarks cannot be imported without PyTorch, so their text is read instead.
  const auto text_of = [](const fs::path& path) {
    std::ifstream in(path);
    return std::string((std::istreambuf_iterator<char>(in)), {});
  };
  std::vector<Finding> found;
  std::size_t names_seen = 0;
  const std::regex import("(?:^|\n)from (\\w+) import ([\\w, ]+)");
  const std::regex word("\\w+");
  for (const auto& entry : fs::directory_iterator(root / "bench")) {
    if (entry.path().extension() != ".py") continue;
    const std::string text = text_of(entry.path());
    for (std::sregex_iterator line(text.begin(), text.end(), import), end; line != end; ++line) {
      const fs::path source = root / "bench" / ((*line)[1].str() + ".py");
      if (!fs::exists(source)) continue;
      const std::string names = (*line)[2];
      const std::string there = text_of(source);
      for (std::sregex_iterator name(names.begin(), names.end(), word); name != end; ++name) {
        ++names_seen;
        const std::regex made("(?:^|\n)(?:(?:def|class) " + name->str() + "\\b|" + name->str() +
                              " = )");
        if (std::regex_search(there, made)) continue;
        found.push_back({fs::relative(entry.path(), root).generic_string(),
                         "takes " + name->str() + " from " + source.filename().string()});
      }
    }
  }
  CHECK(names_seen > 5);
  INFO(listed(found));
  CHECK(found.empty());
}

TEST_CASE("nothing is left for later") {
  std::vector<Finding> found;
  const std::regex later(std::string("\\b(TO") + "DO|FIX" + "ME|XX" + "X)\\b");
  for (const SourceFile& file : sources()) {
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      if (std::regex_search(file.lines[i], later)) {
        found.push_back({file.path + ":" + std::to_string(i + 1), file.lines[i]});
      }
    }
  }
  INFO(listed(found));
  CHECK(found.empty());
}

TEST_CASE("every folder explains itself in a README") {
  for (const char* folder : {".", "base", "consensus", "train", "net", "peer", "sim", "cli",
                             "tests", "configs", "bench", "docs", "scripts"}) {
    INFO(folder);
    CHECK(fs::exists(root / folder / "README.md"));
  }
}

TEST_CASE("every source file is named in a CMakeLists of its folder") {
  std::vector<Finding> found;
  for (const SourceFile& file : sources()) {
    fs::path folder = root / fs::path(file.path).parent_path();
    const std::regex unit("\\b" + fs::path(file.path).stem().string() + "\\b");
    bool named = false;
    for (; !named && folder != root; folder = folder.parent_path()) {
      std::ifstream in(folder / "CMakeLists.txt");
      const std::string text((std::istreambuf_iterator<char>(in)), {});
      named = std::regex_search(text, unit);
    }
    if (!named && file.path.ends_with(".cpp")) {
      found.push_back({file.path, "is in no CMakeLists.txt"});
    }
  }
  INFO(listed(found));
  CHECK(found.empty());
}

}  // namespace gv::tidy
