// The state kept while a config is read. Included only by the sources that read and check configs.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "peer/config/config.hpp"

namespace gv {

/// The config read so far, the line of each key, and the problems.
struct ConfigReading {
  /// A key that is set in the file.
  struct Given {
    std::size_t line = 0;
    bool sound = true;  ///< True if the value was read without a problem.
  };

  std::string name;  ///< Name of the text, used in the places of problems.
  ParsedConfig parsed;
  std::map<std::string, Given> given;
  std::map<std::string, std::size_t> sections;

  std::string place(std::size_t line, const std::string& path) const {
    return name + ":" + std::to_string(line) + ": " + path;
  }

  /// The line number in the place of a problem; 0 if the problem concerns the file as a whole.
  std::size_t line_of_place(const Problem& problem) const {
    if (problem.place.size() <= name.size()) return 0;
    return std::strtoull(problem.place.c_str() + name.size() + 1, nullptr, 10);
  }

  void report(std::size_t line, const std::string& path, std::string reason, std::string remedy) {
    parsed.problems.push_back({place(line, path), std::move(reason), std::move(remedy)});
  }

  /// Reports a problem at the line that sets `path`, or at the start of its section.
  void report(const std::string& path, std::string reason, std::string remedy) {
    report(line_of(path), path, std::move(reason), std::move(remedy));
  }

  /// Returns the line that sets `path`; if there is none, the line of its section, or 1.
  std::size_t line_of(const std::string& path) const {
    const auto found = given.find(path);
    if (found != given.end()) return found->second.line;
    const auto section = sections.find(path.substr(0, path.rfind('.')));
    return section != sections.end() ? section->second : 1;
  }

  bool is_given(const std::string& path) const { return given.contains(path); }

  /// False if the file sets `path` to an unreadable value. Other checks must then ignore that key.
  bool is_sound(std::string_view path) const {
    const auto found = given.find(std::string(path));
    return found == given.end() || found->second.sound;
  }
};

/// Reports combinations of settings that make no sense.
void check_together(ConfigReading& reading);

/// Fills in the names of the data files and reports missing ones. `data_folder` replaces the
/// config's folder, unless it is empty.
void find_data_files(ConfigReading& reading, const std::string& data_folder);

}  // namespace gv
