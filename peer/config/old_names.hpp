// Names and values that earlier versions used in configs, and their replacements.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gv {

/// Returns the current name for an old name of a section ("[ring]"), a key
/// ("allreduce.keep_per_block") or a value ("run.mode = ring"). Returns nullopt if no earlier
/// version used `old_name`, or if it is still in use.
std::optional<std::string> renamed(std::string_view old_name);

/// A value that earlier versions accepted, and its replacement.
struct RemovedValue {
  std::string_view before;  ///< For example "mixing.guard = clip".
  std::string_view reason;
  std::string_view remedy;
};

/// Returns the entry for a value that was removed, such as "mixing.guard = clip"; nullopt if there
/// is none.
std::optional<RemovedValue> removed(std::string_view old_value);

}  // namespace gv
