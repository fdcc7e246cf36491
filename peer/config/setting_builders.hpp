// How a table of settings is written: a builder for each kind of value, which reads and prints it.
#pragma once

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/time.hpp"
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

template <class Item>
std::string shown(const std::vector<Item>& list) {
  std::string text = "[";
  for (std::size_t i = 0; i < list.size(); ++i) text += (i ? ", " : "") + shown(list[i]);
  return text + "]";
}

// ---- Values from TOML ----

/// Bounds of a number, both included unless `above` excludes the lower one.
struct Range {
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

/// Largest whole number that every machine we run on can hold and TOML can write.
constexpr double whole_max = 9007199254740992.0;  // 2^53: exact as a double too.

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

inline std::optional<BadValue> out_of_range(const std::string& given, const Range& range) {
  return BadValue{"out of range: " + given, "write a number " + range.text()};
}

/// Reads a whole number into any integer field.
template <class Integer>
std::optional<BadValue> read_whole(const TomlValue& value, const Range& range, Integer& field) {
  const auto* whole = std::get_if<std::int64_t>(&value.data);
  if (whole == nullptr) return wrong_type(value, "a whole number, " + range.text());
  if (!range.contains(static_cast<double>(*whole))) return out_of_range(shown(*whole), range);
  field = static_cast<Integer>(*whole);
  return std::nullopt;
}

/// Reads a number, whole or not, into `field`.
inline std::optional<BadValue> read_number(const TomlValue& value, const Range& range,
                                           double& field) {
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

template <class Item, class ReadItem>
std::optional<BadValue> read_list(const TomlValue& value, const std::string& type,
                                  std::vector<Item>& field, ReadItem read_item) {
  const auto* list = std::get_if<TomlList>(&value.data);
  if (list == nullptr) return wrong_type(value, type);
  std::vector<Item> items(list->size());
  for (std::size_t i = 0; i < list->size(); ++i) {
    if (auto bad = read_item((*list)[i], items[i])) {
      bad->reason = "item " + std::to_string(i + 1) + ": " + bad->reason;
      return bad;
    }
  }
  field = std::move(items);
  return std::nullopt;
}

// ---- Builders: each binds a key to the field that `get` names ----

/// `get` is a generic lambda, so that one names the field for reading and for writing.
template <class Object>
struct Section {
  std::string_view name;

  template <class Get>
  Setting<Object> flag(std::string_view key, Get get, std::string_view meaning) const {
    return {name,
            key,
            meaning,
            "true or false",
            false,
            [get](const TomlValue& value, Object& object) -> std::optional<BadValue> {
              const auto* boolean = std::get_if<bool>(&value.data);
              if (boolean == nullptr) return wrong_type(value, "true or false");
              get(object) = *boolean;
              return std::nullopt;
            },
            [get](const Object& object) { return shown(get(object)); }};
  }

  template <class Get>
  Setting<Object> whole(std::string_view key, Get get, Range range,
                        std::string_view meaning) const {
    range.max = std::min(range.max, whole_max);
    const bool bounded = range.max < whole_max;
    const std::string bounds = bounded ? range.text() : Range{range.min}.text();
    return {name,
            key,
            meaning,
            "whole number, " + bounds,
            false,
            [get, range](const TomlValue& value, Object& object) {
              return read_whole(value, range, get(object));
            },
            [get, range](const Object& object) {
              const auto value = get(object);
              // -1 is kept as the largest number there is.
              const bool unlimited = range.min < 0 && value == static_cast<decltype(value)>(-1);
              return unlimited ? std::string("-1") : shown(value);
            }};
  }

  template <class Get>
  Setting<Object> number(std::string_view key, Get get, Range range,
                         std::string_view meaning) const {
    return {name,
            key,
            meaning,
            "number, " + range.text(),
            false,
            [get, range](const TomlValue& value, Object& object) {
              double number = 0;
              auto bad = read_number(value, range, number);
              if (!bad)
                get(object) = static_cast<std::remove_cvref_t<decltype(get(object))>>(number);
              return bad;
            },
            [get](const Object& object) { return shown(get(object)); }};
  }

  /// A Duration written as a number of seconds.
  template <class Get>
  Setting<Object> duration(std::string_view key, Get get, Range range,
                           std::string_view meaning) const {
    return {name,
            key,
            meaning,
            "seconds, " + range.text(),
            false,
            [get, range](const TomlValue& value, Object& object) {
              double number = 0;
              auto bad = read_number(value, range, number);
              if (!bad) get(object) = from_seconds(number);
              return bad;
            },
            [get](const Object& object) { return shown(seconds(get(object))); }};
  }

  template <class Get>
  Setting<Object> text(std::string_view key, Get get, std::string_view meaning) const {
    return {name,
            key,
            meaning,
            "text",
            false,
            [get](const TomlValue& value, Object& object) -> std::optional<BadValue> {
              const auto* text = std::get_if<std::string>(&value.data);
              if (text == nullptr) return wrong_type(value, "a text in quotes");
              if (text->empty()) return BadValue{"empty", "write a name or remove the line"};
              get(object) = *text;
              return std::nullopt;
            },
            [get](const Object& object) { return shown(get(object)); }};
  }

  template <class Get>
  Setting<Object> texts(std::string_view key, Get get, std::string_view meaning) const {
    return {name,
            key,
            meaning,
            "list of texts",
            false,
            [get](const TomlValue& value, Object& object) {
              return read_list(value, "a list of texts", get(object),
                               [](const TomlValue& item, std::string& field) {
                                 const auto* text = std::get_if<std::string>(&item.data);
                                 if (text != nullptr) field = *text;
                                 return text != nullptr ? std::optional<BadValue>{}
                                                        : wrong_type(item, "a text in quotes");
                               });
            },
            [get](const Object& object) { return shown(get(object)); }};
  }

  template <class Get>
  Setting<Object> wholes(std::string_view key, Get get, Range range,
                         std::string_view meaning) const {
    return {name,
            key,
            meaning,
            "list of whole numbers, each " + range.text(),
            false,
            [get, range](const TomlValue& value, Object& object) {
              return read_list(value, "a list of whole numbers, as [128, 64]", get(object),
                               [range](const TomlValue& item, auto& field) {
                                 return read_whole(item, range, field);
                               });
            },
            [get](const Object& object) { return shown(get(object)); }};
  }

  template <class Get, class Choice>
  Setting<Object> choice(std::string_view key, Get get,
                         std::vector<std::pair<std::string, Choice>> choices,
                         std::string_view meaning) const {
    std::vector<std::string> names;
    std::string type;
    for (const auto& [word, value] : choices) {
      names.push_back(word);
      type += (type.empty() ? "\"" : ", \"") + word + "\"";
    }
    return {name,
            key,
            meaning,
            type,
            false,
            [get, choices, names, type, path = std::string(name) + "." + std::string(key)](
                const TomlValue& value, Object& object) -> std::optional<BadValue> {
              const auto* text = std::get_if<std::string>(&value.data);
              if (text == nullptr) return wrong_type(value, "one of " + type);
              const auto found = std::find(names.begin(), names.end(), *text);
              if (found == names.end()) {
                if (const auto now = renamed(path + " = " + *text)) {
                  return BadValue{shown(*text) + " was renamed", "write \"" + *now + "\""};
                }
                return BadValue{"unknown value " + shown(*text),
                                "the nearest is \"" + nearest_name(*text, names).value_or("") +
                                    "\", of " + type};
              }
              get(object) = choices[static_cast<std::size_t>(found - names.begin())].second;
              return std::nullopt;
            },
            [get, choices](const Object& object) {
              for (const auto& [word, value] : choices) {
                if (value == get(object)) return shown(word);
              }
              return std::string("?");
            }};
  }
};

template <class Object>
Setting<Object> agreed(Setting<Object> setting) {
  setting.agrees = true;
  return setting;
}

/// The setting counts only while `has_effect`, which is decided by the key `depends_on`.
template <class Object, class Predicate>
Setting<Object> only_with(std::string_view depends_on, std::string_view in_words,
                          Predicate has_effect, Setting<Object> setting) {
  setting.has_effect = has_effect;
  setting.depends_on = depends_on;
  setting.effective_with = in_words;
  return setting;
}

/// Names a field of the object for the builders above.
#define GV_FIELD(path) \
  [](auto& object) -> auto& { return object.path; }

}  // namespace gv::settings
