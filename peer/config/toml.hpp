// TOML with the line of every value. Reading continues after mistakes, so that all are reported at
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

/// A value and its line. `TomlOther` stands for dates and times, which no setting uses.
struct TomlOther {};
struct TomlValue {
  std::variant<bool, std::int64_t, double, std::string, TomlOther, TomlList, TomlTable> data;
  std::size_t line = 0;
};

/// The kind of a value, for error messages: "a whole number", "a text".
std::string_view kind_of(const TomlValue& value);

/// The most problems of one text that are looked for and listed.
constexpr std::size_t problems_max = 100;

/// True if a key of this TOML has more than 16 dots, or brackets stand more than 32 deep in each
/// other. To parse such text could use up the stack.
bool nests_too_deeply(std::string_view text);

/// Reads `text` statement by statement. A statement with a mistake (syntax, duplicate key, too
/// deeply nested) is skipped and reported in `problems` with the place "name:line"; the other
/// statements are used. The limits are 1 MiB of text and `problems_max` problems.
TomlTable read_toml(std::string_view text, std::string_view name, Problems& problems);

/// The text of a file within the size limit. If it cannot be read, returns nullopt and adds the
/// reason to `problems`. `what` names the expected content in messages: "config", "scenario".
std::optional<std::string> read_text_file(const std::string& path, std::string_view what,
                                          Problems& problems);

/// The candidate that needs the fewest edits (insert, delete, replace, swap neighbours) from
/// `name`; the first on ties; nullopt if there are no candidates. Names that differ only in the
/// unit at their end (`_s`, `_steps`) count as equal, and a name that contains the other as one
/// edit.
std::optional<std::string> nearest_name(std::string_view name,
                                        std::span<const std::string> candidates);

/// Number of edits from `a` to `b`, where swapping two neighbours is one edit (optimal string
/// alignment).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// `name` without the unit at its end: "deadline" for "deadline_ms". Returns `name` itself if it
/// has none.
std::string_view without_unit(std::string_view name);

}  // namespace gv
