// The sources of the project as text, for tests about code.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace gv::tidy {

namespace fs = std::filesystem;

inline const fs::path root = GRAPEVINE_SOURCE_DIR;

struct SourceFile {
  std::string path;  ///< The path from the project's root.
  std::vector<std::string> lines;
};

inline const std::vector<std::string> folders = {"base", "consensus", "train", "net",  "peer",
                                                 "sim",  "cli",       "tests", "bench"};

inline bool is_source(const fs::path& path) {
  return path.extension() == ".hpp" || path.extension() == ".cpp";
}

inline std::vector<SourceFile> read_sources() {
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

inline const std::vector<SourceFile>& sources() {
  static const std::vector<SourceFile> files = read_sources();
  return files;
}

/// All pages that are written for people.
inline std::vector<fs::path> pages() {
  std::vector<fs::path> found;
  const auto add = [&](const fs::path& path) {
    if (path.extension() == ".md") found.push_back(path);
  };
  for (const auto& entry : fs::directory_iterator(root)) add(entry.path());
  for (const char* folder : {"base", "bench", "cli", "configs", "consensus", "docs", "examples",
                             "net", "peer", "python", "scripts", "sim", "tests", "train"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) add(entry.path());
  }
  std::ranges::sort(found);
  return found;
}

/// The line without its trailing comment.
inline std::string code_of(const std::string& line) { return line.substr(0, line.find("//")); }

struct Finding {
  std::string place;
  std::string what;
};

inline std::string listed(const std::vector<Finding>& findings) {
  std::ostringstream text;
  for (const Finding& finding : findings) text << finding.place << ": " << finding.what << '\n';
  return text.str();
}

/// Lines with matching code in files for which `concerns` is true.
inline std::vector<Finding> lines_matching(
    const std::string& pattern, const std::function<bool(const std::string&)>& concerns) {
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

}  // namespace gv::tidy
