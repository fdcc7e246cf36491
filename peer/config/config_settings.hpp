// The one table of everything a config file can set: parsing, printing and agreement all walk it.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "peer/config/config.hpp"
#include "peer/config/toml.hpp"

namespace gv {

/// Why a value cannot be used and what would do.
struct BadValue {
  std::string reason;
  std::string remedy;
};

/// When a key counts.
template <class Object>
struct Condition {
  std::string key;    ///< The key that decides it, as "run.mode".
  std::string words;  ///< For "only with ...".
  std::function<bool(const Object&)> holds;
};

/// One key of a section, bound to a field of `Object`.
template <class Object>
struct Setting {
  std::string_view section;  ///< "data.generated"; empty for the keys of a layer.
  std::string_view key;
  std::string_view meaning;     ///< One sentence for the reference, without a full stop.
  std::string type;             ///< "whole number, 1 to 64".
  bool agrees = false;          ///< Must be equal on all peers of a run.
  Condition<Object> condition;  ///< Without a function the key always counts.

  /// Sets the field, or leaves it as it was and says why.
  std::function<std::optional<BadValue>(const TomlValue&, Object&)> read;
  /// The field as a TOML value.
  std::function<std::string(const Object&)> show;

  std::string path() const {
    return section.empty() ? std::string(key) : std::string(section) + "." + std::string(key);
  }
  bool counts(const Object& object) const { return !condition.holds || condition.holds(object); }
};

/// In the order of the reference, sections kept together.
std::span<const Setting<Config>> config_settings();

/// The keys of one [[model.layers]] table. The reader of a list of layers reads the key `layers`.
std::span<const Setting<LayerSpec>> layer_settings();

/// One layer as an inline table, with the keys that count for its kind.
std::string to_string(const LayerSpec& layer);
std::string to_string(const std::vector<LayerSpec>& layers);

}  // namespace gv
