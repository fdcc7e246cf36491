// Reads TOML and notes the line of every value. Continues after mistakes, to report all at once.
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

/// A date or time, which no setting uses.
struct TomlOther {};
struct TomlValue {
  std::variant<bool, std::int64_t, double, std::string, TomlOther, TomlList, TomlTable> data;
  std::size_t line = 0;
};

/// Returns the kind of a value for error messages, such as "a whole number" or "a text".
std::string_view kind_of(const TomlValue& value);

/// The most problems that the reader looks for in one text.
constexpr std::size_t problems_max = 100;

/// True if a key in the text has more than 16 dots, or if brackets are nested more than 32 deep.
/// Parsing such a text could exhaust the stack.
bool nests_too_deeply(std::string_view text);

/// Reads `text` statement by statement. A statement with a mistake (syntax, duplicate key, too
/// deeply nested) is skipped and reported in `problems` with the place "name:line"; the other
/// statements are used. The limits are 1 MiB of text and `problems_max` problems.
TomlTable read_toml(std::string_view text, std::string_view name, Problems& problems);

/// Returns the text of a file within the size limit. If the file cannot be read, returns nullopt
/// and adds the reason to `problems`. `what` names the expected content in messages: "config",
/// "scenario".
std::optional<std::string> read_text_file(const std::string& path, std::string_view what,
                                          Problems& problems);

/// Returns the candidate that is the fewest edits (insert, delete, replace, swap neighbours) away
/// from `name`, ignoring case. On ties, returns the first. Returns nullopt if every candidate is
/// more than a third of the length of `name` away. Names that differ only in the unit at their end
/// (`_s`, `_steps`) count as equal, and a name that contains the other counts as one edit away.
std::optional<std::string> nearest_name(std::string_view name,
                                        std::span<const std::string> candidates);

/// Returns the remedy for a key that is not in `valid`. It names the nearest valid key, if one is
/// near.
std::string near_remedy(std::string_view key, std::span<const std::string> valid);

/// Returns the number of edits from `a` to `b`. Swapping two adjacent characters is one edit
/// (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// Returns `name` without the unit at its end: "deadline" for "deadline_ms". Returns `name` itself
/// if it has no unit.
std::string_view without_unit(std::string_view name);

}  // namespace gv
