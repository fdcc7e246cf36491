// What `grapevine plan` says about peers that are pinned to stages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/ids.hpp"

namespace gv {

/// The stages of pinned peers by name, as in the config.
using NamedPins = std::map<std::string, std::uint32_t>;

/// One line about the pins of a plan for peers with these names. A second line lists pinned peers
/// whose names are not in `peers`. Empty if there are no pins.
std::string pins_text(const NamedPins& pins, const std::vector<std::string>& peers);

/// Describes the pins of a plan for `peers` peers. These have the names that `grapevine launch`
/// gives them: peer-0, peer-1, and so on.
std::string pins_text(const NamedPins& pins, std::size_t peers);

/// The pins by peer id, where peer-0, peer-1, ... have the ids 1, 2, ...
std::map<PeerId, std::uint32_t> pins_of_numbered(const NamedPins& pins, std::size_t peers);

}  // namespace gv
