// Tables of names that have changed and values that have been removed since version 0.1.
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

constexpr std::array removals = {
    RemovedValue{
        "mixing.guard = clip",
        "was removed: rounds mix whole models, and a hostile one of the usual length passed",
        "write \"self_centred_clip\", which limits how far a neighbour moves the model"},
};

}  // namespace

std::optional<RemovedValue> removed(std::string_view old_value) {
  for (const RemovedValue& removal : removals) {
    if (removal.before == old_value) return removal;
  }
  return std::nullopt;
}

std::optional<std::string> renamed(std::string_view old_name) {
  for (const Rename& rename : renames) {
    if (rename.before == old_name) return std::string(rename.now);
  }
  return std::nullopt;
}

}  // namespace gv
