// The one table of all settings of a config file. Parsing, printing and agreement all use it.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "peer/config/config.hpp"
#include "peer/config/toml.hpp"

namespace gv {

/// Why a value cannot be used, and what would be valid.
struct BadValue {
  std::string reason;
  std::string remedy;
};

/// The condition under which a key has an effect.
template <class Object>
struct Condition {
  std::string key;    ///< The key on which the condition depends, for example "run.mode".
  std::string words;  ///< The text after "only with" in error messages.
  std::function<bool(const Object&)> holds;
};

/// A key of a section, bound to a field of `Object`.
template <class Object>
struct Setting {
  std::string_view section;  ///< For example "data.generated"; empty for the keys of a layer.
  std::string_view key;
  std::string_view meaning;  ///< One sentence without a full stop, for the reference of settings.
  std::string type;          ///< For example "whole number, 1 to 64".
  bool agrees = false;       ///< True if the value must be equal on all peers of a run.
  /// The condition under which the key has an effect. If `condition.holds` is empty, the key always
  /// has an effect.
  Condition<Object> condition;

  /// Sets the field. If the value is bad, leaves the field unchanged and returns the reason.
  std::function<std::optional<BadValue>(const TomlValue&, Object&)> read;
  /// Returns the field's value in TOML notation.
  std::function<std::string(const Object&)> show;

  std::string path() const {
    return section.empty() ? std::string(key) : std::string(section) + "." + std::string(key);
  }
  bool counts(const Object& object) const { return !condition.holds || condition.holds(object); }
};

/// Returns all settings in the order of the reference, grouped by section.
std::span<const Setting<Config>> config_settings();

/// The keys of one [[model.layers]] table, except `layers`, which the reader of layer lists
/// handles.
std::span<const Setting<LayerSpec>> layer_settings();

/// Returns a layer's kind in the notation of configs, with its units and inner layers, for example
/// "conv2d 64" or "residual (dense, relu)".
std::string layer_name(const LayerSpec& layer);

/// Returns a layer as an inline table, with the keys that have an effect for its kind.
std::string to_string(const LayerSpec& layer);
std::string to_string(const std::vector<LayerSpec>& layers);

}  // namespace gv
