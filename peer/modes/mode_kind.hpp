// Names the modes.
#pragma once

#include <span>
#include <string_view>

namespace gv {

/// How peers work together.
enum class ModeKind { gossip, allreduce, pipeline, mixing };

struct ModeName {
  ModeKind kind{};
  std::string_view name;  ///< The name in configs.
  std::string_view way;   ///< Completes the sentence "peers train ...", for example "by gossip".
};

/// The names of all modes, in the order of the enumeration.
std::span<const ModeName> mode_names();

inline std::string_view to_string(ModeKind mode) {
  return mode_names()[static_cast<std::size_t>(mode)].name;
}

}  // namespace gv
