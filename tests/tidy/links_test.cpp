// Links between pages lead to files and headings that exist.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cctype>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/tidy/sources.hpp"

namespace gv::tidy {
namespace {

/// The lines of a page outside of fenced blocks.
std::vector<std::string> prose_lines(const fs::path& page) {
  std::vector<std::string> lines;
  std::ifstream in(page);
  bool is_fenced = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("```")) {
      is_fenced = !is_fenced;
    } else if (!is_fenced) {
      lines.push_back(line);
    }
  }
  return lines;
}

/// A heading's anchor as Markdown viewers make it: in small letters, with hyphens for blanks and
/// without other characters. Viewers number repeated headings, but no link needs that here.
std::string anchor_of(const std::string& heading) {
  static const std::regex link(R"(\[([^\]]*)\]\([^)]*\))");
  std::string anchor;
  for (const char c : std::regex_replace(heading, link, "$1")) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == ' ') anchor += '-';
    if (std::isalnum(byte) != 0 || c == '-' || c == '_') {
      anchor += static_cast<char>(std::tolower(byte));
    }
  }
  return anchor;
}

std::set<std::string> anchors_of(const fs::path& page) {
  static const std::regex heading("#+ (.*)");
  std::set<std::string> anchors;
  std::smatch match;
  for (const std::string& line : prose_lines(page)) {
    if (std::regex_match(line, match, heading)) anchors.insert(anchor_of(match[1]));
  }
  return anchors;
}

/// A page's text without code, because brackets in code are not links.
std::string prose_of(const fs::path& page) {
  std::string text;
  bool is_code = false;
  for (const std::string& line : prose_lines(page)) {
    if (line.empty()) is_code = false;  // Code ends with its paragraph at the latest.
    for (const char c : line) {
      if (c == '`') {
        is_code = !is_code;
      } else if (!is_code) {
        text += c;
      }
    }
    text += '\n';
  }
  return text;
}

/// The broken links of a page. `anchors` caches the headings of pages read so far.
std::vector<Finding> broken_links(const fs::path& page,
                                  std::map<fs::path, std::set<std::string>>& anchors) {
  static const std::regex link(R"(\]\(([^)\s]+)\))");
  const std::string text = prose_of(page);
  std::vector<Finding> broken;
  for (std::sregex_iterator match(text.begin(), text.end(), link), end; match != end; ++match) {
    const std::string target = (*match)[1];
    if (target.find("://") != std::string::npos || target.starts_with("mailto:")) continue;
    const std::size_t hash = std::min(target.find('#'), target.size());
    const fs::path to = hash == 0 ? page : page.parent_path() / target.substr(0, hash);
    const std::string anchor = target.substr(std::min(hash + 1, target.size()));
    bool is_there = fs::exists(to);
    if (is_there && !anchor.empty()) {
      if (!anchors.contains(to)) anchors[to] = anchors_of(to);
      is_there = anchors[to].contains(anchor);
    }
    if (!is_there) broken.push_back({fs::relative(page, root).generic_string(), target});
  }
  return broken;
}

}  // namespace

TEST_CASE("links between pages lead to files and headings that exist") {
  const std::vector<fs::path> all = pages();
  std::map<fs::path, std::set<std::string>> anchors;
  std::vector<Finding> broken;
  for (const fs::path& page : all) {
    for (Finding& finding : broken_links(page, anchors)) broken.push_back(std::move(finding));
  }
  INFO(listed(broken));
  CHECK(broken.empty());
  CHECK(all.size() > 40);
  CHECK(anchor_of("Which rank am I?") == "which-rank-am-i");
}

}  // namespace gv::tidy
