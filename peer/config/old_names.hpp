// Names that earlier versions used in configs, and their new names.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gv {

/// The present name: a section as "[ring]", a key as "allreduce.keep_per_block", a value as
/// "run.mode = ring". Empty if no version had that name, or it is still in use.
std::optional<std::string> renamed(std::string_view old_name);

}  // namespace gv
