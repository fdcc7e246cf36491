// Describes pins in words, and finds the peers that they name.
#include "cli/pins.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/local/keys.hpp"

namespace gv {
namespace {

std::vector<std::string> launched_names(std::size_t peers) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < peers; ++i) names.push_back(peer_name(i));
  return names;
}

}  // namespace

std::string pins_text(const NamedPins& pins, const std::vector<std::string>& peers) {
  std::vector<std::string> here;
  std::vector<std::string> absent;
  for (const auto& [name, stage] : pins) {
    const bool is_here = std::ranges::find(peers, name) != peers.end();
    (is_here ? here : absent).push_back(fmt::format("{} to stage {}", name, stage));
  }
  std::string text;
  if (!here.empty()) text += fmt::format("Pinned: {}.\n", fmt::join(here, ", "));
  if (absent.empty()) return text;
  return text + fmt::format("Pinned, but not among these peers: {}.\n", fmt::join(absent, ", "));
}

std::string pins_text(const NamedPins& pins, std::size_t peers) {
  return pins_text(pins, launched_names(peers));
}

std::map<PeerId, std::uint32_t> pins_of_numbered(const NamedPins& pins, std::size_t peers) {
  std::map<PeerId, std::uint32_t> found;
  const std::vector<std::string> names = launched_names(peers);
  for (std::size_t i = 0; i < peers; ++i) {
    const auto pin = pins.find(names[i]);
    if (pin != pins.end()) found.emplace(PeerId{i + 1}, pin->second);
  }
  return found;
}

}  // namespace gv
