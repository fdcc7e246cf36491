// Merges two TOML tables.
#include "peer/library/merged_config.hpp"

#include <toml++/toml.h>

#include <sstream>
#include <stdexcept>

#include "peer/config/task.hpp"
#include "peer/config/toml.hpp"
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

toml::table parsed_table(std::string_view text) {
  if (nests_too_deeply(text)) throw std::runtime_error("keys or brackets nest too deeply");
  return toml::parse(text);
}

}  // namespace

std::string merged_text(const std::string& path, std::string_view settings) {
  if (settings.empty()) return read_config_text(path);
  toml::table table = path.empty() ? toml::table() : parsed_table(read_config_text(path));
  merge(parsed_table(settings), table);
  std::ostringstream merged;
  merged << table;
  return merged.str();
}

ParsedConfig merged_config(const std::string& path, std::string_view settings,
                           const ConfigOverrides& overrides) {
  if (settings.empty()) return read_config(path, overrides);
  if (!path.empty()) {
    // If the file itself has problems, report them with its own line numbers, before merging.
    ParsedConfig parsed = parse_config_file(path, overrides);
    if (!parsed.problems.empty()) return parsed;
  }
  try {
    return parse_config_text(merged_text(path, settings),
                             path.empty() ? "settings" : path + " and settings", overrides);
  } catch (const std::runtime_error& error) {
    return {{}, {{"settings", error.what(), "write them as in a config file"}}};
  }
}

}  // namespace gv
