// Tables of settings in Markdown, as the documentation must show them.
#pragma once

#include <span>
#include <string>

#include "peer/config/config_settings.hpp"

namespace gv {

inline constexpr const char* settings_head =
    "| Key | Value | Default | Meaning |\n|---|---|---|---|\n";

/// The row of a table for one key, with its type, default and meaning.
template <class Object>
std::string settings_row(const Setting<Object>& setting) {
  std::string meaning(setting.meaning);
  if (setting.condition.holds) meaning += "; only with " + setting.condition.words;
  return "| `" + std::string(setting.key) + "` | " + setting.type + " | `" +
         setting.show(Object{}) + "` | " + meaning + " |\n";
}

template <class Object>
std::string settings_table(std::span<const Setting<Object>> settings) {
  std::string text = settings_head;
  for (const Setting<Object>& setting : settings) text += settings_row(setting);
  return text;
}

}  // namespace gv
