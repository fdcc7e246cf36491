// Code about code: who may include what, what pure folders may not do, how every file begins and
// how long it may be.
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

namespace {

namespace fs = std::filesystem;

const fs::path root = GRAPEVINE_SOURCE_DIR;

/// What the files of a folder may include: the folder itself, `base/`, the folders that its row
/// names, and all that those may include. Headers include no library but the standard one, unless
/// the row says so; sources also those that the row names.
struct Folder {
  std::string prefix;
  std::vector<std::string> folders;
  std::vector<std::string> libraries;  ///< Prefixes, in sources.
  bool is_pure = false;                ///< Reads no clock, starts no thread, draws no seed.
  bool headers_use_libraries = false;
};

/// The layering of the project. A file belongs to the longest prefix.
const std::vector<Folder> layout = {
    {"base/", {}, {"Eigen/", "emmintrin.h"}, true},
    {"consensus/message/", {}, {}, true},
    {"consensus/membership/", {"consensus/message/"}, {}, true},
    {"consensus/transfer/", {"consensus/message/"}, {}, true},
    {"consensus/topology/", {}, {"Eigen/"}, true},
    {"consensus/codec/", {}, {"Eigen/"}, true},
    {"consensus/compression/", {"consensus/codec/"}, {"Eigen/"}, true},
    {"consensus/gossip/", {"consensus/transfer/", "consensus/codec/"}, {}, true},
    {"consensus/mixing/",
     {"consensus/message/", "consensus/topology/", "consensus/codec/", "consensus/compression/"},
     {"Eigen/"},
     true},
    // The survey of links times probes, which are transfers.
    {"consensus/generation/", {"consensus/message/", "consensus/transfer/"}, {}, true},
    {"consensus/allreduce/",
     {"consensus/transfer/", "consensus/compression/"},
     {"Eigen/", "emmintrin.h"},
     true},
    {"consensus/pipeline/", {"consensus/message/"}, {}, true},
    {"train/", {}, {"Eigen/", "dnnl", "omp.h", "zlib.h", "nlohmann/", "fcntl.h", "unistd.h"}, true},
    {"net/",
     {"consensus/message/", "consensus/transfer/"},
     {"arpa/inet.h", "netinet/", "asio", "zmq", "cereal/", "openssl/", "sodium.h", "sys/",
      "fcntl.h", "unistd.h"},
     false,
     true},
    // The replica is made of the built-in learner.
    {"peer/node/", {"consensus/", "peer/modes/", "train/"}, {}, true},
    {"peer/modes/", {"consensus/", "peer/node/", "train/"}, {}, true},
    {"peer/config/", {"peer/node/", "peer/modes/", "train/"}, {"toml++/", "fmt/"}, true},
    {"peer/host/",
     {"peer/config/", "net/"},
     {"asio", "fmt/", "nlohmann/", "malloc.h", "sched.h", "sodium.h", "sys/", "fcntl.h", "poll.h",
      "unistd.h"},
     false,
     true},
    {"sim/", {"peer/config/"}, {"fmt/"}, true},
    {"sim/virtual/", {"sim/"}, {"fmt/", "nlohmann/"}, true},
    {"sim/local/",
     {"sim/", "peer/host/"},
     {"asio", "fmt/", "nlohmann/", "sys/", "fcntl.h", "unistd.h", "spawn.h"},
     false,
     true},
    {"tests/theory/", {"consensus/mixing/"}, {"fmt/", "Eigen/", "catch2/"}, true},
};

struct SourceFile {
  std::string path;  ///< From the project's root.
  std::vector<std::string> lines;
};

const std::vector<std::string> folders = {"base", "consensus", "train", "net",  "peer",
                                          "sim",  "cli",       "tests", "bench"};

bool is_source(const fs::path& path) {
  return path.extension() == ".hpp" || path.extension() == ".cpp";
}

std::vector<SourceFile> read_sources() {
  std::vector<SourceFile> files;
  for (const std::string& folder : folders) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (!entry.is_regular_file() || !is_source(entry.path())) continue;
      SourceFile file{fs::relative(entry.path(), root).generic_string(), {}};
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) file.lines.push_back(line);
      files.push_back(std::move(file));
    }
  }
  std::ranges::sort(files, {}, &SourceFile::path);
  return files;
}

const std::vector<SourceFile>& sources() {
  static const std::vector<SourceFile> files = read_sources();
  return files;
}

/// The row of the folder that a file is in; null where there is none.
const Folder* folder_of(const std::string& path) {
  const Folder* longest = nullptr;
  for (const Folder& folder : layout) {
    const bool is_longer = longest == nullptr || folder.prefix.size() > longest->prefix.size();
    if (path.starts_with(folder.prefix) && is_longer) longest = &folder;
  }
  return longest;
}

/// The rows that a name in the table stands for: the one of that prefix or, where there is none,
/// all below it.
std::vector<const Folder*> rows_named(const std::string& name) {
  std::vector<const Folder*> rows;
  for (const Folder& folder : layout) {
    if (folder.prefix == name) return {&folder};
    if (folder.prefix.starts_with(name)) rows.push_back(&folder);
  }
  return rows;
}

/// Adds the folder, and all whose headers its files may include.
void add_reachable(const Folder& folder, std::set<const Folder*>& reachable) {
  if (!reachable.insert(&folder).second) return;
  for (const std::string& name : folder.folders) {
    for (const Folder* below : rows_named(name)) add_reachable(*below, reachable);
  }
}

bool is_pure(const std::string& path) {
  const Folder* folder = folder_of(path);
  return folder != nullptr && folder->is_pure;
}

/// A header of the standard library: no directory and no extension.
bool is_standard(const std::string& include) {
  return include.find('/') == std::string::npos && include.find('.') == std::string::npos &&
         !include.starts_with("asio") && !include.starts_with("dnnl");
}

/// Whether a file of that folder may include a header that is not of the standard library.
bool may_include(const Folder& folder, const std::string& path, const std::string& include) {
  const bool libraries = path.ends_with(".cpp") || folder.headers_use_libraries;
  const bool is_library = std::ranges::any_of(
      folder.libraries, [&](const std::string& prefix) { return include.starts_with(prefix); });
  if (is_library) return libraries;
  std::set<const Folder*> reachable;
  add_reachable(folder, reachable);
  add_reachable(*rows_named("base/").front(), reachable);
  return reachable.contains(folder_of(include));
}

/// The line without a comment at its end.
std::string code_of(const std::string& line) { return line.substr(0, line.find("//")); }

struct Finding {
  std::string place;
  std::string what;
};

std::string listed(const std::vector<Finding>& findings) {
  std::ostringstream text;
  for (const Finding& finding : findings) text << finding.place << ": " << finding.what << '\n';
  return text.str();
}

/// Lines whose code matches, in files that `concerns`.
std::vector<Finding> lines_matching(const std::string& pattern,
                                    const std::function<bool(const std::string&)>& concerns) {
  const std::regex wanted(pattern);
  std::vector<Finding> found;
  for (const SourceFile& file : sources()) {
    if (!concerns(file.path) || file.path.starts_with("tests/tidy/")) continue;
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      const std::string code = code_of(file.lines[i]);
      if (!std::regex_search(code, wanted)) continue;
      found.push_back({file.path + ":" + std::to_string(i + 1), code});
    }
  }
  return found;
}

std::vector<Finding> forbidden_includes(const SourceFile& file) {
  static const std::regex include(R"re(^\s*#include\s*[<"]([^>"]+)[>"])re");
  std::vector<Finding> found;
  const Folder* folder = folder_of(file.path);
  // The commands, the tests and the measurements see everything.
  const bool is_free = file.path.starts_with("cli/") || file.path.starts_with("tests/") ||
                       file.path.starts_with("bench/");
  if (folder == nullptr && !is_free) found.push_back({file.path, "is in no folder of the table"});
  if (folder == nullptr) return found;
  for (std::size_t i = 0; i < file.lines.size(); ++i) {
    std::smatch match;
    if (!std::regex_search(file.lines[i], match, include) || is_standard(match[1])) continue;
    const std::string name = match[1];
    if (!may_include(*folder, file.path, name))
      found.push_back({file.path + ":" + std::to_string(i + 1), "may not include " + name});
  }
  return found;
}

/// The line without a comment and blanks at its end.
std::string trimmed(const std::string& line) {
  const std::string code = code_of(line);
  const std::size_t last = code.find_last_not_of(" \t");
  return last == std::string::npos ? "" : code.substr(0, last + 1);
}

/// The code of every line, without what stands between the two ends of a raw string of several
/// lines: it may look like code.
std::vector<std::string> code_lines(const SourceFile& file) {
  static const std::regex begin(R"re(R"(\w*)\()re");
  std::vector<std::string> lines;
  std::string end;  // Of the raw string that the line is in; empty outside of one.
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

/// The line that ends the body of the function whose declaration begins at `line`: formatted code
/// closes it with the first brace that stands as far to the right as the declaration.
std::size_t last_of_function(const std::vector<std::string>& lines, std::size_t line) {
  const std::string brace = std::string(lines[line].find_first_not_of(' '), ' ') + "}";
  // A handler of the whole function is a part of it.
  const auto is_last = [&](const std::string& text) {
    return text.starts_with(brace) && !text.ends_with('{');
  };
  while (line + 1 < lines.size() && !is_last(lines[line])) ++line;
  return line;
}

/// The line that ends the value in braces which opens at `line`.
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

/// Whether such a declaration is one of a function, or a lambda with a name of its own, and no
/// value in braces.
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

/// Functions with more lines than that, from the first line of the declaration to the closing
/// brace. What is inside of a function is a part of it.
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
    i = has_body ? last_of_function(lines, first) : last_of_value(lines, i);
    const std::size_t length = i + 1 - first;
    if (length <= longest_function || !has_body) continue;
    found.push_back({file.path + ":" + std::to_string(first + 1),
                     std::to_string(length) + " lines: " + lines[first]});
  }
  return found;
}

}  // namespace

TEST_CASE("every folder includes only what the table of the architecture allows") {
  std::vector<Finding> found;
  for (const SourceFile& file : sources()) {
    for (Finding& finding : forbidden_includes(file)) found.push_back(std::move(finding));
  }
  INFO(listed(found));
  CHECK(found.empty());
}

TEST_CASE("the include check sees what is forbidden") {
  const SourceFile bad{"consensus/codec/x.cpp",
                       {"#include <vector>", "#include \"net/wire.hpp\"", "#include <asio.hpp>"}};
  CHECK(forbidden_includes(bad).size() == 2);
  CHECK(forbidden_includes({"peer/host/host.cpp", {"#include \"sim/scenario.hpp\""}}).size() == 1);
  CHECK(forbidden_includes({"sim/scenario.cpp", {"#include \"cli/commands.hpp\""}}).size() == 1);
  CHECK(forbidden_includes({"consensus/x.cpp", {}}).size() == 1);
  CHECK(forbidden_includes({"train/x.hpp", {"#include <Eigen/Core>"}}).size() == 1);
  CHECK(forbidden_includes({"peer/node/node.cpp", {"#include \"net/identity.hpp\""}}).size() == 1);
}

TEST_CASE("pure code reads no clock and starts no thread and draws no unseeded number") {
  const auto found = lines_matching(
      R"(steady_clock|system_clock|high_resolution_clock|std::j?thread|std::mutex|std::async|)"
      R"(condition_variable|sleep_for|sleep_until|random_device|mt19937|_distribution<|getenv|)"
      R"(std::time\(|gettimeofday|clock_gettime)",
      is_pure);
  INFO(listed(found));
  CHECK(found.empty());
}

TEST_CASE("consensus iterates over nothing whose order is not defined") {
  const auto found = lines_matching(
      "unordered_", [](const std::string& path) { return path.starts_with("consensus/"); });
  INFO(listed(found));
  CHECK(found.empty());
}

TEST_CASE("pure code has no mutable statics") {
  const auto found = lines_matching(
      R"(^\s*(static|thread_local|inline)\s+(?!const|constexpr|constinit const|inline constexpr)[\w:<>,\s]*\w+\s*(=|;|\{\}))",
      is_pure);
  INFO(listed(found));
  CHECK(found.empty());
}

TEST_CASE("tests wait for conditions and never sleep") {
  const auto found =
      lines_matching(R"(sleep_for|sleep_until|\busleep\(|\bsleep\()",
                     [](const std::string& path) { return path.starts_with("tests/"); });
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
  // What it says of `before`, `count` lines of a body, and `after`.
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
  // The function after a value in braces is seen as well.
  CHECK(said_of({"const Rows rows = {{", "  1}};", "", "int f() {"}, 69, {"}"}).size() == 1);

  CHECK(said_of({"namespace gv {"}, 100, {"}  // namespace gv"}).empty());
  CHECK(said_of({"template <typename T>", "class X : public Y<int()> {"}, 100, {"};"}).empty());
  CHECK(said_of({"enum class X {"}, 100, {"};"}).empty());
  CHECK(said_of({"extern \"C\" {"}, 100, {"}"}).empty());
  CHECK(said_of({"const std::vector<int> rows = {"}, 100, {"};"}).empty());
  CHECK(said_of({"const Rows rows = rows_of({"}, 100, {"});"}).empty());
}

TEST_CASE("what a bench takes from another one is there") {
  // Some need PyTorch to be imported at all, so they are read instead.
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

TEST_CASE("every unit has one row in the README of its folder") {
  std::vector<Finding> found;
  std::set<std::string> seen;
  for (const SourceFile& file : sources()) {
    if (folder_of(file.path) == nullptr && !file.path.starts_with("cli/")) continue;
    if (file.path.starts_with("tests/")) continue;
    const std::string unit = file.path.substr(0, file.path.rfind('.'));
    if (!seen.insert(unit).second) continue;
    const std::string folder = unit.substr(0, unit.find('/'));
    const std::string name = "`" + unit.substr(folder.size() + 1) + "`";
    std::ifstream readme(root / folder / "README.md");
    std::size_t rows = 0;
    for (std::string line; std::getline(readme, line);) {
      // The first cell of a row may name several units.
      if (!line.starts_with("| `")) continue;
      if (line.substr(0, line.find('|', 1)).find(name) != std::string::npos) ++rows;
    }
    if (rows != 1) {
      found.push_back({folder + "/README.md", name + " has " + std::to_string(rows) + " rows"});
    }
  }
  INFO(listed(found));
  CHECK(found.empty());
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
