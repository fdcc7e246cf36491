// Names and values that earlier versions used in configs, and their replacements.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gv {

/// The present name of a section ("[ring]"), a key ("allreduce.keep_per_block") or a value
/// ("run.mode = ring"). Returns nullopt if no earlier version had that name, or if it is still in
/// use.
std::optional<std::string> renamed(std::string_view old_name);

/// A value of earlier versions, and its replacement.
struct RemovedValue {
  std::string_view before;  ///< "mixing.guard = clip".
  std::string_view reason;
  std::string_view remedy;
};

/// The entry for a value ("mixing.guard = clip") that was removed; nullopt if it was not.
std::optional<RemovedValue> removed(std::string_view old_value);

}  // namespace gv
