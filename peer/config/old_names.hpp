// Names that earlier versions used in configs, and their present names.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gv {

/// The present name of a section ("[ring]"), a key ("allreduce.keep_per_block") or a value
/// ("run.mode = ring"). Returns nullopt if no version had that name, or it is still in use.
std::optional<std::string> renamed(std::string_view old_name);

}  // namespace gv
