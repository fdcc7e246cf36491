// TOML with the line of every value, read on past mistakes so that all of them are reported at
// once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/problems.hpp"

namespace gv {

struct TomlValue;

using TomlList = std::vector<TomlValue>;
using TomlTable = std::map<std::string, TomlValue>;

/// One value and the line it stands on. `TomlOther` are dates and times, which no setting uses.
struct TomlOther {};
struct TomlValue {
  std::variant<bool, std::int64_t, double, std::string, TomlOther, TomlList, TomlTable> data;
  std::size_t line = 0;
};

/// The kind of the value, for messages: "a whole number", "a text".
std::string_view kind_of(const TomlValue& value);

/// Reads `text` statement by statement. A statement with a mistake (syntax, duplicate key) is left
/// out and reported in `problems` with the place "name:line"; the others count. At most 1 MiB of
/// text.
TomlTable read_toml(std::string_view text, std::string_view name, Problems& problems);

/// The text of a file within the size limit; empty, with a reason in `problems`, if it cannot be
/// read. `what` says in messages what it should hold: "config", "scenario".
std::optional<std::string> read_text_file(const std::string& path, std::string_view what,
                                          Problems& problems);

/// The candidate with the fewest edits (insert, delete, replace, swap neighbours) from `name`, ties
/// to the first; empty if there are no candidates. Names that differ only in the unit at their end
/// (`_s`, `_steps`) count as equal, and names of which one contains the other as one edit apart.
std::optional<std::string> nearest_name(std::string_view name,
                                        std::span<const std::string> candidates);

/// Edits from `a` to `b`, where swapping two neighbours is one edit (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// `name` without a unit at its end: "deadline" for "deadline_ms"; `name` itself if it has none.
std::string_view without_unit(std::string_view name);

}  // namespace gv
