// Recognises places that are settings of the text, and finds their lines.
#include "peer/config/config_places.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "peer/config/config_settings.hpp"

namespace gv {
namespace {

bool is_of_config(std::string_view place) {
  const std::string_view key = place.substr(0, place.find('['));
  if (key == "model.layers") return true;
  return std::ranges::any_of(config_settings(), [&](const Setting<Config>& setting) {
    return setting.section == key || setting.path() == key;
  });
}

}  // namespace

std::string ConfigPlaces::place_of(const std::string& place) const {
  if (name.empty() || !is_of_config(place)) return place;
  std::size_t line = 1;
  std::string_view around = place;
  while (true) {
    if (const auto found = lines.find(std::string(around)); found != lines.end()) {
      line = found->second;
      break;
    }
    const std::size_t inner = around.find_last_of(".[");
    if (inner == std::string_view::npos) break;
    around = around.substr(0, inner);
  }
  return name + ":" + std::to_string(line) + ": " + place;
}

Problems ConfigPlaces::placed(Problems problems) const {
  for (Problem& problem : problems) problem.place = place_of(problem.place);
  return problems;
}

}  // namespace gv
