// The English of comments and pages.
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "tests/tidy/sources.hpp"

namespace gv::tidy {
namespace {

/// The comment of a line, without its slashes; empty if there is none.
std::string comment_of(const std::string& line) {
  const auto at = line.find("//");
  if (at == std::string::npos) return {};
  return line.substr(line.find_first_not_of("/< ", at) == std::string::npos
                         ? line.size()
                         : line.find_first_not_of("/< ", at));
}

/// Words that make a native reader stumble, each with the words around it.
std::vector<Finding> stilted(const std::string& place, const std::string& prose) {
  // These are written in two parts, so that the test does not find its own file.
  static const std::regex words(std::string(R"re(\b(who)re") + R"re(ever|so m)re" +
                                    R"re(any|of those th)re" + R"re(at|an)re" +
                                    R"re(ew|there and b)re" + R"re(ack|what c(ame|omes) o)re" +
                                    R"re(f it)\b)re",
                                std::regex::icase);
  std::vector<Finding> found;
  for (std::sregex_iterator match(prose.begin(), prose.end(), words), end; match != end; ++match) {
    const auto at = static_cast<std::size_t>(match->position());
    const std::size_t begin = at < 30 ? 0 : at - 30;
    found.push_back({place, "... " + prose.substr(begin, 70) + " ..."});
  }
  return found;
}

}  // namespace

TEST_CASE("comments and pages are in plain English") {
  std::vector<Finding> found;
  const auto add = [&](const std::string& place, const std::string& prose) {
    for (Finding& finding : stilted(place, prose)) found.push_back(std::move(finding));
  };
  for (const SourceFile& file : sources()) {
    std::string prose;
    for (const std::string& line : file.lines) prose += comment_of(line) + " ";
    add(file.path, prose);
  }
  for (const fs::path& page : pages()) {
    std::ifstream in(page);
    std::string text((std::istreambuf_iterator<char>(in)), {});
    std::ranges::replace(text, '\n', ' ');
    add(fs::relative(page, root).generic_string(), text);
  }
  INFO(listed(found));
  CHECK(found.empty());
  CHECK(stilted("x", std::string("done an") + "ew by who" + "ever").size() == 2);
}

TEST_CASE("the comment of a field is understood alone") {
  std::vector<Finding> found;
  for (const SourceFile& file : sources()) {
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      const std::string& line = file.lines[i];
      if (line.find("///<") == std::string::npos || !line.ends_with(',')) continue;
      found.push_back({file.path + ":" + std::to_string(i + 1), "goes on in the next one"});
    }
  }
  INFO(listed(found));
  CHECK(found.empty());
}

}  // namespace gv::tidy
