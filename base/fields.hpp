// Access to all fields of a struct or class, for code that treats all fields in the same way.
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

/// A plain struct that declares `static constexpr bool has_varints = true`. Its own 64-bit fields
/// and the lengths of its lists are written in as few bytes as their values need (LEB128). Numbers
/// inside an optional or a list keep their full width.
template <class T>
concept HasVarints = PlainStruct<T> && std::remove_const_t<T>::has_varints;

/// The number of fields of a plain struct. A struct has at least n fields if it can be initialised
/// from n values.
template <PlainStruct S>
constexpr std::size_t number_of_fields() {
  if constexpr (std::is_empty_v<S>) {
    return 0;
  } else if constexpr (requires { S{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}}; }) {
    return 12;
  } else if constexpr (requires { S{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}}; }) {
    return 11;
  } else if constexpr (requires { S{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}}; }) {
    return 10;
  } else if constexpr (requires { S{{}, {}, {}, {}, {}, {}, {}, {}, {}}; }) {
    return 9;
  } else if constexpr (requires { S{{}, {}, {}, {}, {}, {}, {}, {}}; }) {
    return 8;
  } else if constexpr (requires { S{{}, {}, {}, {}, {}, {}, {}}; }) {
    return 7;
  } else if constexpr (requires { S{{}, {}, {}, {}, {}, {}}; }) {
    return 6;
  } else if constexpr (requires { S{{}, {}, {}, {}, {}}; }) {
    return 5;
  } else if constexpr (requires { S{{}, {}, {}, {}}; }) {
    return 4;
  } else if constexpr (requires { S{{}, {}, {}}; }) {
    return 3;
  } else if constexpr (requires { S{{}, {}}; }) {
    return 2;
  } else {
    return 1;
  }
}

/// A plain struct, or a class that makes Fields its friend and declares its number of fields as
/// `static constexpr std::size_t field_count`. A wrong number does not compile, so code that treats
/// all fields alike misses none.
template <class T>
concept Fielded = PlainStruct<T> || requires {
  T::field_count;
};

/// Refers to the fields of an object, in the order of their declaration.
class Fields {
 public:
  template <class T>
  static constexpr auto of(T& object) {
    using S = std::remove_const_t<T>;
    if constexpr (requires { S::field_count; }) {
      return bind(object, Number<S::field_count>());
    } else {
      return bind(object, Number<number_of_fields<S>()>());
    }
  }

 private:
  template <std::size_t n>
  using Number = std::integral_constant<std::size_t, n>;

  static constexpr std::tuple<> bind(auto&, Number<0>) { return {}; }
#define GRAPEVINE_BIND(n, ...)                          \
  static constexpr auto bind(auto& object, Number<n>) { \
    auto& [__VA_ARGS__] = object;                       \
    return std::tie(__VA_ARGS__);                       \
  }
  GRAPEVINE_BIND(1, a)
  GRAPEVINE_BIND(2, a, b)
  GRAPEVINE_BIND(3, a, b, c)
  GRAPEVINE_BIND(4, a, b, c, d)
  GRAPEVINE_BIND(5, a, b, c, d, e)
  GRAPEVINE_BIND(6, a, b, c, d, e, f)
  GRAPEVINE_BIND(7, a, b, c, d, e, f, g)
  GRAPEVINE_BIND(8, a, b, c, d, e, f, g, h)
  GRAPEVINE_BIND(9, a, b, c, d, e, f, g, h, i)
  GRAPEVINE_BIND(10, a, b, c, d, e, f, g, h, i, j)
  GRAPEVINE_BIND(11, a, b, c, d, e, f, g, h, i, j, k)
  GRAPEVINE_BIND(12, a, b, c, d, e, f, g, h, i, j, k, l)
  GRAPEVINE_BIND(13, a, b, c, d, e, f, g, h, i, j, k, l, m)
  GRAPEVINE_BIND(14, a, b, c, d, e, f, g, h, i, j, k, l, m, n)
  GRAPEVINE_BIND(15, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o)
  GRAPEVINE_BIND(16, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)
  GRAPEVINE_BIND(17, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q)
  GRAPEVINE_BIND(18, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r)
  GRAPEVINE_BIND(19, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s)
  GRAPEVINE_BIND(20, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t)
  GRAPEVINE_BIND(21, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u)
  GRAPEVINE_BIND(22, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v)
  GRAPEVINE_BIND(23, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w)
  GRAPEVINE_BIND(24, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x)
  GRAPEVINE_BIND(25, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y)
  GRAPEVINE_BIND(26, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z)
  GRAPEVINE_BIND(27, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z,
                 a2)
  GRAPEVINE_BIND(28, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z,
                 a2, b2)
  GRAPEVINE_BIND(29, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z,
                 a2, b2, c2)
  GRAPEVINE_BIND(30, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z,
                 a2, b2, c2, d2)
  GRAPEVINE_BIND(31, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z,
                 a2, b2, c2, d2, e2)
  GRAPEVINE_BIND(32, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z,
                 a2, b2, c2, d2, e2, f2)
#undef GRAPEVINE_BIND
};

/// References to all fields, in the order of their declaration.
template <class T>
requires Fielded<std::remove_const_t<T>>
constexpr auto fields_of(T& value) { return Fields::of(value); }

/// The name of a type without its namespace.
template <class T>
constexpr std::string_view type_name() {
  std::string_view name = __PRETTY_FUNCTION__;
  name.remove_prefix(name.find("T = ") + 4);
  name = name.substr(0, name.find_first_of(";]"));
  return name.substr(name.rfind(':') + 1);
}

}  // namespace gv
