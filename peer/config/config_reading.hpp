// The state of reading a config; only the sources that read and check it include this.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "peer/config/config.hpp"

namespace gv {

/// The config so far, where each key was set, and the problems.
struct ConfigReading {
  /// A key that the file sets.
  struct Given {
    std::size_t line = 0;
    bool sound = true;  ///< It was read without a problem.
  };

  std::string name;  ///< Name of the text, for places of problems.
  ParsedConfig parsed;
  std::map<std::string, Given> given;
  std::map<std::string, std::size_t> sections;

  std::string place(std::size_t line, const std::string& path) const {
    return name + ":" + std::to_string(line) + ": " + path;
  }

  /// The line inside a place this reading wrote; 0 for the file as a whole.
  std::size_t line_of_place(const Problem& problem) const {
    if (problem.place.size() <= name.size()) return 0;
    return std::strtoull(problem.place.c_str() + name.size() + 1, nullptr, 10);
  }

  void report(std::size_t line, const std::string& path, std::string reason, std::string remedy) {
    parsed.problems.push_back({place(line, path), std::move(reason), std::move(remedy)});
  }

  /// Reports it where `path` is set, else where its section starts.
  void report(const std::string& path, std::string reason, std::string remedy) {
    report(line_of(path), path, std::move(reason), std::move(remedy));
  }

  /// Where `path` is set, else where its section starts, else line 1.
  std::size_t line_of(const std::string& path) const {
    const auto found = given.find(path);
    if (found != given.end()) return found->second.line;
    const auto section = sections.find(path.substr(0, path.rfind('.')));
    return section != sections.end() ? section->second : 1;
  }

  bool is_given(const std::string& path) const { return given.contains(path); }

  /// False when the file sets it to something unreadable: then nothing follows from it.
  bool is_sound(std::string_view path) const {
    const auto found = given.find(std::string(path));
    return found == given.end() || found->second.sound;
  }
};

/// Reports settings that make no sense together.
void check_together(ConfigReading& reading);

/// Completes the names of the data files and reports missing ones; `data_folder`, unless empty,
/// replaces the config's.
void find_data_files(ConfigReading& reading, const std::string& data_folder);

}  // namespace gv
