// The allowed lengths of lines, functions and files.
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
namespace {

/// The line without its trailing comment and blanks.
std::string trimmed(const std::string& line) {
  const std::string code = code_of(line);
  const std::size_t last = code.find_last_not_of(" \t");
  return last == std::string::npos ? "" : code.substr(0, last + 1);
}

/// The code of every line. Leaves out the inside of raw strings over several lines, because it may
/// look like code.
std::vector<std::string> code_lines(const SourceFile& file) {
  static const std::regex begin(R"re(R"(\w*)\()re");
  std::vector<std::string> lines;
  std::string end;  // The end of the raw string that contains the line; empty outside raw strings.
  for (const std::string& line : file.lines) {
    if (!end.empty()) {
      const std::size_t at = line.find(end);
      lines.push_back(at == std::string::npos ? "" : "    " + trimmed(line.substr(at)));
      if (at != std::string::npos) end.clear();
      continue;
    }
    lines.push_back(trimmed(line));
    std::smatch match;
    if (!std::regex_search(lines.back(), match, begin)) continue;
    const std::string wanted = ")" + match[1].str() + "\"";
    if (line.find(wanted, match.position()) == std::string::npos) end = wanted;
  }
  return lines;
}

/// The first line of the declaration whose last line is `line`.
std::size_t first_of_declaration(const std::vector<std::string>& lines, std::size_t line) {
  while (line > 0) {
    const std::string& before = lines[line - 1];
    const bool is_other = before.empty() || before.front() == '#' ||
                          std::string(";{}:\\").find(before.back()) != std::string::npos;
    if (is_other) break;
    --line;
  }
  return line;
}

/// The line that ends the body of the function whose declaration begins at `line`. In formatted
/// code, it is the first closing brace with the indentation of the declaration.
std::size_t last_of_function(const std::vector<std::string>& lines, std::size_t line) {
  const std::string brace = std::string(lines[line].find_first_not_of(' '), ' ') + "}";
  // A handler (`catch`) of the whole function is part of it.
  const auto is_last = [&](const std::string& text) {
    return text.starts_with(brace) && !text.ends_with('{');
  };
  while (line + 1 < lines.size() && !is_last(lines[line])) ++line;
  return line;
}

/// The line that ends the value in braces that begins at `line`.
std::size_t last_of_value(const std::vector<std::string>& lines, std::size_t line) {
  while (line + 1 < lines.size() && !lines[line].ends_with(';')) ++line;
  return line;
}

/// Whether a declaration that ends with an opening brace opens a scope with declarations in it.
bool opens_scope(const std::string& declaration) {
  static const std::regex scope(
      R"(^\s*(template <.*> )?(inline )?(namespace|class|struct|union|extern "C")( .*)?\{$)");
  // A function may return `struct stat`, and a structure may be aligned.
  static const std::regex call(R"(\w\(.*\) .*\{$)");
  return std::regex_match(declaration, scope) &&
         (declaration.find("alignas(") != std::string::npos ||
          !std::regex_search(declaration, call));
}

/// True if a declaration that ends with an opening brace is of a function or a named lambda. False
/// if it is of a value in braces.
bool is_function(const std::string& declaration) {
  static const std::regex parameters("^\\s*template <.*?> ");
  const std::string rest = std::regex_replace(declaration, parameters, "");
  const std::size_t value = rest.find(" = ");
  const std::size_t call = rest.find('(');
  const bool is_lambda = value != std::string::npos && rest[value + 3] == '[';
  const bool is_value = value < call || rest.ends_with("= {");
  return is_lambda || (call != std::string::npos && !is_value);
}

const std::size_t longest_function = 70;
const std::size_t longest_file = 600;

/// Functions with more than `longest_function` lines, from the first line of the declaration to the
/// closing brace. Lambdas and local types count as lines of the function around them.
std::vector<Finding> long_functions(const SourceFile& file) {
  const std::vector<std::string> lines = code_lines(file);
  std::vector<Finding> found;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (!lines[i].ends_with('{')) continue;
    const std::size_t first = first_of_declaration(lines, i);
    std::string declaration = lines[first];
    for (std::size_t j = first + 1; j <= i; ++j) {
      declaration += " " + lines[j].substr(lines[j].find_first_not_of(' '));
    }
    if (opens_scope(declaration)) continue;
    const bool has_body = is_function(declaration);
    // The declaration may begin after a brace that ends something else.
    i = std::max(i, has_body ? last_of_function(lines, first) : last_of_value(lines, i));
    const std::size_t length = i + 1 - first;
    if (length <= longest_function || !has_body) continue;
    found.push_back({file.path + ":" + std::to_string(first + 1),
                     std::to_string(length) + " lines: " + lines[first]});
  }
  return found;
}

}  // namespace

TEST_CASE("no line is longer than a hundred columns and none has a tab") {
  std::vector<Finding> found;
  for (const SourceFile& file : sources()) {
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      const std::string& line = file.lines[i];
      // Continuation bytes of UTF-8 take no column.
      const auto columns = std::ranges::count_if(line, [](char c) { return (c & 0xc0) != 0x80; });
      if (columns > 100 && line.find("R\"") == std::string::npos) {
        found.push_back({file.path + ":" + std::to_string(i + 1), "is too long"});
      }
      if (line.find('\t') != std::string::npos) {
        found.push_back({file.path + ":" + std::to_string(i + 1), "has a tab"});
      }
    }
  }
  INFO(listed(found));
  CHECK(found.empty());
}

TEST_CASE("no file is longer than six hundred lines") {
  std::vector<Finding> found;
  for (const SourceFile& file : sources()) {
    if (file.lines.size() <= longest_file) continue;
    found.push_back({file.path, std::to_string(file.lines.size()) + " lines"});
  }
  INFO(listed(found));
  CHECK(found.empty());
}

TEST_CASE("no function is longer than seventy lines") {
  std::vector<Finding> found;
  for (const SourceFile& file : sources()) {
    for (Finding& finding : long_functions(file)) found.push_back(std::move(finding));
  }
  INFO(listed(found));
  CHECK(found.empty());
}

TEST_CASE("the length check sees functions and nothing else") {
  using Lines = std::vector<std::string>;
  // The check's findings in a file that consists of `before`, `count` lines of a body, and `after`.
  const auto said_of = [](Lines before, std::size_t count, const Lines& after) {
    before.insert(before.end(), count, "    step(1);");
    before.insert(before.end(), after.begin(), after.end());
    return long_functions({"x.cpp", before});
  };
  const auto sees = [&](const Lines& head, const Lines& end) {
    const std::size_t inside = longest_function - head.size() - end.size();
    return said_of(head, inside, end).empty() && said_of(head, inside + 1, end).size() == 1;
  };
  CHECK(sees({"int f(int x) {"}, {"}"}));
  CHECK(sees({"template <int x = 0>", "int f(int y,", "    int z = 3) const {"}, {"}"}));
  CHECK(sees({"Node::Node(int x)", "    : x_(x), step_([x] {"}, {"      }) {", "  go();", "}"}));
  CHECK(sees({"TEST_CASE(\"a sentence\") {", "  if (x) {"}, {"  }", "}"}));
  CHECK(sees({"const auto f = [] {"}, {"};"}));
  CHECK(sees({"struct stat f(int x) {"}, {"}"}));
  CHECK(sees({"int main() try {"}, {"} catch (const Error&) {", "  return 1;", "}"}));
  CHECK(sees({"int f() {", "  const char* text = R\"(", "}"}, {")\";", "}"}));

  const Finding in_class =
      said_of({"struct X {", "  int x = 0;", "", "  int f() {"}, 69, {"  }", "};"}).at(0);
  CHECK(in_class.place == "x.cpp:4");
  CHECK(in_class.what == "71 lines:   int f() {");
  // The check also finds the function after a value in braces.
  CHECK(said_of({"const Rows rows = {{", "  1}};", "", "int f() {"}, 69, {"}"}).size() == 1);

  CHECK(said_of({"namespace gv {"}, 100, {"}  // namespace gv"}).empty());
  CHECK(said_of({"template <typename T>", "class X : public Y<int()> {"}, 100, {"};"}).empty());
  CHECK(said_of({"enum class X {"}, 100, {"};"}).empty());
  CHECK(said_of({"extern \"C\" {"}, 100, {"}"}).empty());
  CHECK(said_of({"const std::vector<int> rows = {"}, 100, {"};"}).empty());
  CHECK(said_of({"const Rows rows = rows_of({"}, 100, {"});"}).empty());
}

}  // namespace gv::tidy
