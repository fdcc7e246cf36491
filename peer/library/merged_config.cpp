// Merges two TOML tables.
#include "peer/library/merged_config.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <fstream>
#include <iterator>
#include <sstream>

#include "peer/host/peer_arguments.hpp"

namespace gv {
namespace {

void merge(const toml::table& from, toml::table& to) {
  for (const auto& [key, value] : from) {
    toml::table* inner = to[key].as_table();
    if (value.is_table() && inner != nullptr) {
      merge(*value.as_table(), *inner);
    } else {
      to.insert_or_assign(key, value);
    }
  }
}

}  // namespace

ParsedConfig merged_config(const std::string& path, std::string_view settings,
                           const ConfigOverrides& overrides) {
  if (settings.empty()) return read_config(path, overrides);
  std::string text;
  if (!path.empty()) {
    // Problems of the file alone are reported with its lines.
    ParsedConfig parsed = parse_config_file(path, overrides);
    if (!parsed.problems.empty()) return parsed;
    std::ifstream file(path);
    text.assign(std::istreambuf_iterator<char>(file), {});
  }
  try {
    toml::table table = toml::parse(text);
    merge(toml::parse(settings), table);
    std::ostringstream merged;
    merged << table;
    return parse_config_text(merged.str(), path.empty() ? "settings" : path + " and settings",
                             overrides);
  } catch (const toml::parse_error& error) {
    return {{}, {{"settings", std::string(error.description()), "write them as in a config file"}}};
  }
}

}  // namespace gv
