// The table of names that changed since version 0.1.
#include "peer/config/old_names.hpp"

#include <array>

namespace gv {
namespace {

struct Rename {
  std::string_view before;
  std::string_view now;
};

constexpr std::array renames = {
    Rename{"[ring]", "[allreduce]"},
    Rename{"[rounds]", "[mixing]"},
    Rename{"run.mode = ring", "allreduce"},
    Rename{"run.mode = rounds", "mixing"},
    Rename{"pipeline.consensus = ring", "allreduce"},
    Rename{"pipeline.consensus = rounds", "mixing"},
    Rename{"allreduce.keep_per_block", "top_k_per_512"},
    Rename{"mixing.kind = shadow", "companion"},
    Rename{"mixing.memory = reference", "difference"},
    Rename{"mixing.memory = replica", "replicated_difference"},
    Rename{"mixing.memory = error", "error_feedback"},
};

}  // namespace

std::optional<std::string> renamed(std::string_view old_name) {
  for (const Rename& rename : renames) {
    if (rename.before == old_name) return std::string(rename.now);
  }
  return std::nullopt;
}

}  // namespace gv
