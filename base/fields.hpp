// Access to all fields of a plain struct, for code that treats every field alike.
#pragma once

#include <concepts>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>

namespace gv {

/// A struct without constructors, private members or base classes, whose fields all have defaults.
template <class T>
concept PlainStruct = std::is_class_v<T> && std::is_aggregate_v<T> && !requires(T & value) {
  value.begin();
};

/// References to all fields in the order of declaration. A struct has at least n fields if n
/// initialisers compile. A wrong count fails to compile in the structured binding below.
template <class T>
requires PlainStruct<std::remove_const_t<T>>
constexpr auto fields_of(T& value) {
  using S = std::remove_const_t<T>;
  if constexpr (std::is_empty_v<S>) {
    return std::tuple<>{};
  } else if constexpr (requires { S{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}}; }) {
    auto& [a, b, c, d, e, f, g, h, i, j] = value;
    return std::tie(a, b, c, d, e, f, g, h, i, j);
  } else if constexpr (requires { S{{}, {}, {}, {}, {}, {}, {}, {}, {}}; }) {
    auto& [a, b, c, d, e, f, g, h, i] = value;
    return std::tie(a, b, c, d, e, f, g, h, i);
  } else if constexpr (requires { S{{}, {}, {}, {}, {}, {}, {}, {}}; }) {
    auto& [a, b, c, d, e, f, g, h] = value;
    return std::tie(a, b, c, d, e, f, g, h);
  } else if constexpr (requires { S{{}, {}, {}, {}, {}, {}, {}}; }) {
    auto& [a, b, c, d, e, f, g] = value;
    return std::tie(a, b, c, d, e, f, g);
  } else if constexpr (requires { S{{}, {}, {}, {}, {}, {}}; }) {
    auto& [a, b, c, d, e, f] = value;
    return std::tie(a, b, c, d, e, f);
  } else if constexpr (requires { S{{}, {}, {}, {}, {}}; }) {
    auto& [a, b, c, d, e] = value;
    return std::tie(a, b, c, d, e);
  } else if constexpr (requires { S{{}, {}, {}, {}}; }) {
    auto& [a, b, c, d] = value;
    return std::tie(a, b, c, d);
  } else if constexpr (requires { S{{}, {}, {}}; }) {
    auto& [a, b, c] = value;
    return std::tie(a, b, c);
  } else if constexpr (requires { S{{}, {}}; }) {
    auto& [a, b] = value;
    return std::tie(a, b);
  } else {
    auto& [a] = value;
    return std::tie(a);
  }
}

/// The name of a type without its namespace.
template <class T>
constexpr std::string_view type_name() {
  std::string_view name = __PRETTY_FUNCTION__;
  name.remove_prefix(name.find("T = ") + 4);
  name = name.substr(0, name.find_first_of(";]"));
  return name.substr(name.rfind(':') + 1);
}

}  // namespace gv
