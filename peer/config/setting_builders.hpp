// Builders for the table of settings. A row binds a key to a field; the field's type determines how
// it is read and printed.
#pragma once

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/names.hpp"
#include "base/time.hpp"
#include "consensus/codec/codec.hpp"
#include "peer/config/config_settings.hpp"
#include "peer/config/old_names.hpp"
#include "peer/config/toml.hpp"

namespace gv::settings {

// ---- Values as text ----

inline std::string shown(bool value) { return value ? "true" : "false"; }

template <class Number>
requires std::is_arithmetic_v<Number> std::string shown(Number value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  std::string text(digits.data(), end);
  const bool looks_whole = text.find_first_of(".en") == std::string::npos;
  return std::is_floating_point_v<Number> && looks_whole ? text + ".0" : text;
}

inline std::string shown(const std::string& value) {
  std::string text = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + '"';
}

/// The shortest text for a duration in seconds that reads back as the same duration.
inline std::string shown(Duration value) {
  std::array<char, 32> text{};
  double number = 0;
  for (int digits = 1; digits <= std::numeric_limits<double>::max_digits10; ++digits) {
    const auto end = std::to_chars(text.data(), text.data() + text.size(), seconds(value),
                                   std::chars_format::general, digits)
                         .ptr;
    std::from_chars(text.data(), end, number);
    if (from_seconds(number) == value) break;
  }
  return shown(number);
}

template <class Item>
std::string shown(const std::vector<Item>& list) {
  std::string text = "[";
  for (std::size_t i = 0; i < list.size(); ++i) text += (i ? ", " : "") + shown(list[i]);
  return text + "]";
}

/// A table with a whole number for each name.
using NamedNumbers = std::map<std::string, std::uint32_t>;

inline std::string shown(const NamedNumbers& table) {
  std::string text;
  for (const auto& [name, number] : table) {
    const bool is_bare = !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '_' || c == '-';
    });
    text += (text.empty() ? "{ " : ", ") + (is_bare ? name : shown(name)) + " = " + shown(number);
  }
  return text.empty() ? "{}" : text + " }";
}

// ---- Values from TOML ----

/// Bounds of a number. Both are included, unless `above` excludes the lower one.
struct Bounds {
  double min = 0;
  double max = std::numeric_limits<double>::infinity();
  bool above = false;

  bool contains(double value) const {
    return std::isfinite(value) && (above ? value > min : value >= min) && value <= max;
  }

  std::string text() const {
    const auto number = [](double value) {
      return value == std::floor(value) && std::abs(value) < 1e15
                 ? shown(static_cast<std::int64_t>(value))
                 : shown(value);
    };
    if (max == std::numeric_limits<double>::infinity()) {
      return (above ? "above " : "at least ") + number(min);
    }
    return (above ? "above " + number(min) + " up to " : number(min) + " to ") + number(max);
  }
};

/// The smallest value of positive settings that are converted to float32. In float32, a smaller
/// value could become 0, and its reciprocal infinite.
constexpr double least_positive = 1e-37;

/// Returns a setting's value as text. -1, where allowed, is stored as the largest unsigned number.
template <class Value>
std::string shown_within(const Bounds& range, const Value& value) {
  if constexpr (std::unsigned_integral<Value>) {
    if (range.min < 0 && value == static_cast<Value>(-1)) return "-1";
  }
  return shown(value);
}

/// The largest whole number that a setting may have.
constexpr double whole_max = 9007199254740992.0;  // 2^53; doubles are exact up to here.

inline BadValue wrong_type(const TomlValue& value, const std::string& wanted) {
  const auto* text = std::get_if<std::string>(&value.data);
  const bool unit_in_text = text != nullptr && !text->empty() &&
                            wanted.find("number") != wanted.npos &&
                            (std::isdigit(static_cast<unsigned char>(text->front())) != 0);
  if (unit_in_text) {
    return {"wrong type or unit: " + shown(*text) + " is a text, a number is wanted",
            "write only the number, without quotes; the unit is the end of the key's name"};
  }
  return {"wrong type: " + std::string(kind_of(value)), "write a value that is: " + wanted};
}

/// Returns the error for a name that is not in `names`. `listed` is the list of names as text.
inline BadValue unknown_name(const std::string& path, const std::string& text,
                             const std::vector<std::string>& names, const std::string& listed) {
  if (const auto now = renamed(path + " = " + text)) {
    return {shown(text) + " was renamed", "write \"" + *now + "\""};
  }
  if (const auto gone = removed(path + " = " + text)) {
    return {shown(text) + " " + std::string(gone->reason), std::string(gone->remedy)};
  }
  const auto nearest = nearest_name(text, names);
  const std::string near = nearest ? "the nearest is \"" + *nearest + "\", of " : "write one of ";
  return {"unknown value " + shown(text), near + listed};
}

inline std::optional<BadValue> out_of_range(const std::string& given, const Bounds& range) {
  return BadValue{"out of range: " + given, "write a number " + range.text()};
}

// ---- How a field of each type is described and read ----

inline std::string type_of(const bool&, const Bounds&) { return "true or false"; }

inline std::optional<BadValue> read(const TomlValue& value, const Bounds&, bool& field) {
  const auto* boolean = std::get_if<bool>(&value.data);
  if (boolean == nullptr) return wrong_type(value, "true or false");
  field = *boolean;
  return std::nullopt;
}

template <std::integral Integer>
std::string type_of(const Integer&, const Bounds& range) {
  return "whole number, " + (range.max < whole_max ? range : Bounds{range.min}).text();
}

template <std::integral Integer>
std::optional<BadValue> read(const TomlValue& value, Bounds range, Integer& field) {
  range.max = std::min(range.max, whole_max);
  const auto* whole = std::get_if<std::int64_t>(&value.data);
  if (const auto* real = std::get_if<double>(&value.data);
      real != nullptr && *real != std::floor(*real)) {
    return BadValue{shown(*real) + " is not a whole number",
                    "write a whole number, " + range.text()};
  }
  if (whole == nullptr) return wrong_type(value, "a whole number, " + range.text());
  if (!range.contains(static_cast<double>(*whole))) return out_of_range(shown(*whole), range);
  field = static_cast<Integer>(*whole);
  return std::nullopt;
}

inline std::string type_of(const double&, const Bounds& range) { return "number, " + range.text(); }

inline std::optional<BadValue> read(const TomlValue& value, const Bounds& range, double& field) {
  double number = 0;
  if (const auto* real = std::get_if<double>(&value.data)) {
    number = *real;
  } else if (const auto* whole = std::get_if<std::int64_t>(&value.data)) {
    number = static_cast<double>(*whole);
  } else {
    return wrong_type(value, "a number, " + range.text());
  }
  if (!range.contains(number)) return out_of_range(shown(number), range);
  field = number;
  return std::nullopt;
}

inline std::string type_of(const Duration&, const Bounds& range) {
  return "seconds, " + range.text();
}

inline std::optional<BadValue> read(const TomlValue& value, const Bounds& range, Duration& field) {
  double number = 0;
  auto bad = read(value, range, number);
  if (!bad) field = from_seconds(number);
  return bad;
}

inline std::string type_of(const std::string&, const Bounds&) { return "text"; }

inline std::optional<BadValue> read(const TomlValue& value, const Bounds&, std::string& field) {
  const auto* text = std::get_if<std::string>(&value.data);
  if (text == nullptr) return wrong_type(value, "a text in quotes");
  if (text->empty()) return BadValue{"empty", "write a name or remove the line"};
  field = *text;
  return std::nullopt;
}

inline std::string type_of(const std::vector<std::string>&, const Bounds&) {
  return "list of texts";
}

inline std::string type_of(const std::vector<std::size_t>&, const Bounds& range) {
  return "list of whole numbers, each " + range.text();
}

template <class Item>
std::optional<BadValue> read(const TomlValue& value, const Bounds& range,
                             std::vector<Item>& field) {
  const auto* list = std::get_if<TomlList>(&value.data);
  if (list == nullptr) {
    return wrong_type(
        value, std::integral<Item> ? "a list of whole numbers, as [128, 64]" : "a list of texts");
  }
  std::vector<Item> items(list->size());
  for (std::size_t i = 0; i < list->size(); ++i) {
    if (auto bad = read((*list)[i], range, items[i])) {
      bad->reason = "item " + std::to_string(i + 1) + ": " + bad->reason;
      return bad;
    }
  }
  field = std::move(items);
  return std::nullopt;
}

inline std::string type_of(const NamedNumbers&, const Bounds& range) {
  return "table of whole numbers, each " + range.text();
}

inline std::optional<BadValue> read(const TomlValue& value, const Bounds& range,
                                    NamedNumbers& field) {
  const auto* table = std::get_if<TomlTable>(&value.data);
  if (table == nullptr) return wrong_type(value, "a table, as { desk = 0 }");
  NamedNumbers numbers;
  for (const auto& [name, item] : *table) {
    if (auto bad = read(item, range, numbers[name])) {
      bad->reason = shown(name) + ": " + bad->reason;
      return bad;
    }
  }
  field = std::move(numbers);
  return std::nullopt;
}

// ---- Rows ----

/// Returns the choices of an enumeration whose values have names.
template <class Kind, std::size_t count>
auto named_choices(const Names<Kind, count>& names) {
  std::vector<std::pair<std::string, Kind>> choices;
  for (const Kind kind : names.kinds()) choices.emplace_back(names[kind], kind);
  return choices;
}
template <class Kinds>
auto named_choices(const Kinds& kinds) {
  std::vector<std::pair<std::string, typename Kinds::value_type>> choices;
  for (const auto kind : kinds) choices.emplace_back(to_string(kind), kind);
  return choices;
}

/// Returns the choices for a setting that is a codec.
inline std::vector<std::pair<std::string, Codec>> named_codecs(std::span<const NamedCodec> codecs) {
  std::vector<std::pair<std::string, Codec>> choices;
  for (const NamedCodec& row : codecs) choices.emplace_back(row.name, row.codec);
  return choices;
}

/// Appends rows to the table, all in one section and with the same condition. The `field` that its
/// functions take is a generic lambda that returns a reference, so it serves for both reading and
/// writing.
template <class Object>
struct Section {
  std::vector<Setting<Object>>& all;
  std::string_view name;
  Condition<Object> condition = {};
  bool agrees = false;

  /// The same section, for keys that must be equal on all peers of a run.
  Section agreed() const { return {all, name, condition, true}; }
  /// The same section, for keys that also need the condition `holds`. `words` describes both
  /// conditions together.
  Section only_with(std::string key, std::string words, auto holds) const {
    Condition<Object> both{std::move(key), std::move(words), holds};
    if (condition.holds) {
      both.holds = [before = condition.holds, holds](const Object& object) {
        return before(object) && holds(object);
      };
    }
    return {all, name, std::move(both), agrees};
  }
  /// The same section, for keys that have an effect only if an earlier choice() has one of the
  /// values `names`. `key` is a key of this section, or a full path.
  Section with(std::string_view key, const std::vector<std::string_view>& names) const {
    const auto row = std::ranges::find_if(all, [&](const Setting<Object>& above) {
      return above.path() == key || (above.section == name && above.key == key);
    });
    check(row != all.end(), "a condition is about a key above");
    std::vector<std::string> values;
    std::string words = std::string(key) + " = ";
    for (const std::string_view choice : names) {
      const bool is_last = values.size() + 1 == names.size();
      words += values.empty() ? "" : is_last ? " or " : ", ";
      words += values.emplace_back(shown(std::string(choice)));
    }
    return only_with(row->path(), words, [show = row->show, values](const Object& object) {
      return std::ranges::find(values, show(object)) != values.end();
    });
  }

  template <class Field>
  void add(std::string_view key, Field field, Bounds range, std::string_view meaning) const {
    using Value = std::remove_cvref_t<decltype(field(std::declval<Object&>()))>;
    append(
        key, meaning, type_of(Value(), range),
        [field, range](const TomlValue& value, Object& object) {
          return read(value, range, field(object));
        },
        [field, range](const Object& object) { return shown_within(range, field(object)); });
  }

  template <class Field>
  void add(std::string_view key, Field field, std::string_view meaning) const {
    add(key, field, Bounds{}, meaning);
  }

  /// Adds a key whose value is one of several names. If `type` is given, the reference shows it
  /// instead of the list of names.
  template <class Field, class Value = std::remove_cvref_t<std::invoke_result_t<Field, Object&>>>
  void choice(std::string_view key, Field field,
              std::type_identity_t<std::vector<std::pair<std::string, Value>>> choices,
              std::string_view meaning, std::string type = {}) const {
    std::vector<std::string> names;
    std::string listed;
    for (const auto& [word, value] : choices) {
      names.push_back(word);
      listed += (listed.empty() ? "\"" : ", \"") + word + "\"";
    }
    append(
        key, meaning, type.empty() ? listed : type,
        [field, choices, names, listed, path = std::string(name) + "." + std::string(key)](
            const TomlValue& value, Object& object) -> std::optional<BadValue> {
          const auto* text = std::get_if<std::string>(&value.data);
          if (text == nullptr) return wrong_type(value, "one of " + listed);
          const auto found = std::ranges::find(names, *text);
          if (found == names.end()) return unknown_name(path, *text, names, listed);
          field(object) = choices[static_cast<std::size_t>(found - names.begin())].second;
          return std::nullopt;
        },
        [field, choices](const Object& object) {
          for (const auto& [word, value] : choices) {
            if (value == field(object)) return shown(word);
          }
          return std::string("?");
        });
  }

 private:
  void append(std::string_view key, std::string_view meaning, std::string type, auto read,
              auto show) const {
    all.push_back({name, key, meaning, std::move(type), agrees, condition, read, show});
  }
};

/// A generic lambda that returns a field of the object, for the rows above.
#define GV_FIELD(path) \
  [](auto& object) -> auto& { return object.path; }

// ---- The sections, in the order of the reference ----

using Settings = std::vector<Setting<Config>>;
using Keys = Section<Config>;

void append_data(Settings& all);
void append_generated(Settings& all);
void append_model(Settings& all);
void append_train(Settings& all);
void append_schedule(Settings& all);
void append_gossip(Settings& all);
void append_population(Settings& all);
void append_allreduce(Settings& all);
void append_mixing(Settings& all);
void append_pipeline(Settings& all);

}  // namespace gv::settings
