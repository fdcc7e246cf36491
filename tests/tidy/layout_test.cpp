// The layering of the project: which folders may include which, and what pure folders may not do.
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

/// A row of the table. Files of the folder may include the folder itself, `base/`, the folders in
/// the row, and everything that those folders may include. Sources may also include the libraries
/// in the row. Headers may include only the standard library, unless the row says otherwise.
struct Folder {
  std::string prefix;
  std::vector<std::string> folders;
  std::vector<std::string> libraries;  ///< Prefixes of headers that sources may include.
  bool is_pure = false;                ///< True if files use no clocks, threads or random seeds.
  bool headers_use_libraries = false;
};

/// The layering of the project. A file belongs to the row with the longest matching prefix.
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
    {"consensus/generation/", {"consensus/message/"}, {}, true},
    {"consensus/ledger/", {"consensus/message/"}, {}, true},
    {"consensus/trust/", {"consensus/message/"}, {}, true},
    {"consensus/allreduce/",
     {"consensus/transfer/", "consensus/compression/"},
     {"Eigen/", "emmintrin.h"},
     true},
    {"consensus/pipeline/", {"consensus/message/", "consensus/split/"}, {}, true},
    {"consensus/split/", {}, {}, true},
    {"train/learner/", {}, {}, true},
    {"train/",
     {"train/learner/"},
     {"Eigen/", "dnnl", "omp.h", "zlib.h", "nlohmann/", "fcntl.h", "unistd.h"},
     true},
    {"train/formats/", {"train/"}, {"zip.h"}, true},
    {"net/",
     {"consensus/message/", "consensus/transfer/"},
     {"arpa/inet.h", "linux/tcp.h", "netdb.h", "netinet/", "asio", "zmq", "cereal/", "openssl/",
      "sodium.h", "sys/", "fcntl.h", "ifaddrs.h", "unistd.h"},
     false,
     true},
    {"peer/node/", {"consensus/", "peer/modes/", "train/learner/"}, {"fmt/"}, true},
    {"peer/modes/", {"consensus/", "peer/node/", "train/learner/"}, {"fmt/"}, true},
    {"peer/config/", {"peer/node/", "peer/modes/", "train/"}, {"toml++/", "fmt/"}, true},
    {"peer/host/",
     {"peer/config/", "net/"},
     {"asio", "fmt/", "nlohmann/", "malloc.h", "sched.h", "sodium.h", "sys/", "fcntl.h", "poll.h",
      "unistd.h"},
     false,
     true},
    {"peer/library/", {"peer/host/"}, {"fmt/", "toml++/", "unistd.h"}},
    {"sim/", {"peer/config/"}, {"fmt/"}, true},
    {"sim/virtual/", {"sim/"}, {"fmt/", "nlohmann/"}, true},
    {"sim/local/",
     {"sim/", "peer/host/"},
     {"asio", "fmt/", "nlohmann/", "sys/", "fcntl.h", "unistd.h", "spawn.h"},
     false,
     true},
    {"tests/theory/", {"consensus/mixing/"}, {"fmt/", "Eigen/", "catch2/"}, true},
};

/// The row of the folder that contains a file; null if there is none.
const Folder* folder_of(const std::string& path) {
  const Folder* longest = nullptr;
  for (const Folder& folder : layout) {
    const bool is_longer = longest == nullptr || folder.prefix.size() > longest->prefix.size();
    if (path.starts_with(folder.prefix) && is_longer) longest = &folder;
  }
  return longest;
}

/// The rows that a name in the table stands for: the row with that prefix or, if there is none, all
/// rows below it.
std::vector<const Folder*> rows_named(const std::string& name) {
  std::vector<const Folder*> rows;
  for (const Folder& folder : layout) {
    if (folder.prefix == name) return {&folder};
    if (folder.prefix.starts_with(name)) rows.push_back(&folder);
  }
  return rows;
}

/// Adds the folder, and all folders whose headers its files may include.
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

/// True for a header of the standard library, which has no directory and no extension.
bool is_standard(const std::string& include) {
  return include.find('/') == std::string::npos && include.find('.') == std::string::npos &&
         !include.starts_with("asio") && !include.starts_with("dnnl");
}

/// Whether a file of that folder may include a header from outside the standard library.
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

std::vector<Finding> forbidden_includes(const SourceFile& file) {
  static const std::regex include(R"re(^\s*#include\s*[<"]([^>"]+)[>"])re");
  std::vector<Finding> found;
  const Folder* folder = folder_of(file.path);
  // Commands, tests and benchmarks may include everything.
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

TEST_CASE("a config is plain values and knows no options of a mode") {
  static const std::regex include(R"re(^#include "([^"]+)")re");
  std::set<std::string> reached;
  std::vector<std::string> waiting = {"peer/config/config.hpp"};
  while (!waiting.empty()) {
    const std::string path = waiting.back();
    waiting.pop_back();
    const auto file = std::ranges::find(sources(), path, &SourceFile::path);
    REQUIRE(file != sources().end());
    for (const std::string& line : file->lines) {
      std::smatch match;
      if (std::regex_search(line, match, include) && reached.insert(match[1]).second)
        waiting.push_back(match[1]);
    }
  }
  CHECK(reached.size() < 20);
  for (const std::string& header : reached) {
    INFO(header);
    CHECK_FALSE((header.starts_with("peer/") && header.ends_with("_options.hpp")));
    CHECK_FALSE(header.starts_with("peer/node/"));
  }
  const auto found =
      lines_matching(R"(\w\*|\* ?\w+ =|_ptr<|std::function|memory_resource)",
                     [](const std::string& path) { return path == "peer/config/config.hpp"; });
  INFO(listed(found));
  CHECK(found.empty());
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

TEST_CASE("only certificates, tickets and doctor read a wall clock") {
  // The host reads it for certificates and tickets, and to answer doctor.
  const std::set<std::string> readers = {"cli/doctor/checks.cpp", "cli/doctor/live_exam.cpp",
                                         "peer/host/host_swarm.cpp", "peer/host/swarm_start.cpp"};
  const auto is_product = [](const std::string& path) {
    return !path.starts_with("tests/") && !path.starts_with("bench/");
  };
  const auto found = lines_matching(
      R"(system_clock|system_timer|file_clock|utc_clock|high_resolution_clock|gettimeofday|)"
      R"(CLOCK_REALTIME|CLOCK_TAI|timespec_get|\btime\((nullptr|NULL|0|&))",
      is_product);
  INFO(listed(found));
  std::set<std::string> files;
  for (const Finding& finding : found) {
    files.insert(finding.place.substr(0, finding.place.rfind(':')));
  }
  CHECK(files == readers);
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

TEST_CASE("no code asks an object for its type or switches over modes outside their list") {
  const auto is_product = [](const std::string& path) {
    return !path.starts_with("tests/") && path != "peer/modes/modes.cpp";
  };
  const auto found = lines_matching(R"(\bdynamic_cast\b|\bcase ModeKind::)", is_product);
  INFO(listed(found));
  CHECK(found.empty());
}

TEST_CASE("the header of a node pulls in few others") {
  std::set<std::string> seen;
  std::vector<std::string> open = {"peer/node/node.hpp"};
  const std::regex include(R"re(^#include "([^"]+)")re");
  while (!open.empty()) {
    const auto file = std::ranges::find(sources(), open.back(), &SourceFile::path);
    open.pop_back();
    REQUIRE(file != sources().end());
    for (const std::string& line : file->lines) {
      std::smatch match;
      if (!std::regex_search(line, match, include)) continue;
      if (seen.insert(match[1]).second) open.push_back(match[1]);
    }
  }
  CHECK(seen.size() <= 31);
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

}  // namespace gv::tidy
