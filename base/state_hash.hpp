// A hash of a protocol object's whole state, used to explore small simulated worlds exhaustively.
#pragma once

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/fields.hpp"
#include "base/rng.hpp"
#include "base/time.hpp"

namespace gv {

class StateHash;

/// A plain struct, or a class that has Fields as its friend. Its state consists of its fields, one
/// after another. Other classes declare `void add_to(StateHash&) const` and a comparison
/// themselves.
template <class T>
concept FieldedState = Fielded<T> && !requires(const T& state, StateHash& hash) {
  state.add_to(hash);
};

/// True for types that are not part of a state: owners that only keep memory alive, functions, and
/// objects that belong to others.
template <class T>
inline constexpr bool is_stateless = false;
template <>
inline constexpr bool is_stateless<std::shared_ptr<const void>> = true;
template <class F>
inline constexpr bool is_stateless<std::function<F>> = true;
template <class T>
inline constexpr bool is_stateless<T*> = true;

/// True if all parts of the two states are equal. Pointers are equal if their targets are, and
/// floats if their bits are, so equal states have equal hashes.
template <class T>
bool equal_states(const T& a, const T& b) {
  // Compares the fields of two objects, or the elements of two tuples.
  const auto all_equal = [](const auto& of_a, const auto& of_b) {
    return [&]<std::size_t... i>(std::index_sequence<i...>) {
      return (equal_states(std::get<i>(of_a), std::get<i>(of_b)) && ...);
    }
    (std::make_index_sequence<std::tuple_size_v<std::remove_cvref_t<decltype(of_a)>>>());
  };
  if constexpr (is_stateless<T>) {
    return true;
  } else if constexpr (FieldedState<T>) {
    return all_equal(fields_of(a), fields_of(b));
  } else if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
  } else if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
  } else if constexpr (requires { std::begin(a); }) {
    const auto equal = [](const auto& one, const auto& other) { return equal_states(one, other); };
    return std::equal(std::begin(a), std::end(a), std::begin(b), std::end(b), equal);
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    return all_equal(a, b);
  } else if constexpr (requires { *a, static_cast<bool>(a); }) {
    if (static_cast<bool>(a) != static_cast<bool>(b)) return false;
    return !a || &*a == &*b || equal_states(*a, *b);
  } else {
    return a == b;
  }
}

/// A hash of the parts of a state, which are added one after another.
class StateHash {
 public:
  /// Points in time are hashed relative to `now`, so states that differ only in when they were
  /// reached have equal hashes. All points more than `oldest` before `now` get the same hash.
  explicit StateHash(Time now, Duration oldest = Duration::max()) : now_(now), oldest_(oldest) {}

  template <class... Parts>
  void add(const Parts&... parts) {
    (add_one(parts), ...);
  }

  std::uint64_t value() const { return value_; }

 private:
  void mix(std::uint64_t bits) { value_ = hash_combine(value_, bits); }

  /// Hashes eight bytes at a time, because the bytes may be those of a model.
  void mix_bytes(std::span<const std::byte> bytes) {
    for (; !bytes.empty(); bytes = bytes.subspan(std::min<std::size_t>(bytes.size(), 8))) {
      std::uint64_t next = 0;
      std::memcpy(&next, bytes.data(), std::min<std::size_t>(bytes.size(), 8));
      mix(next);
    }
  }

  template <class Part>
  void add_one(const Part& part) {
    if constexpr (is_stateless<Part>) {
      return;
    } else if constexpr (std::is_same_v<Part, Time>) {
      const Duration ahead = part == never ? Duration::max() : std::max(part - now_, -oldest_);
      mix(static_cast<std::uint64_t>(ahead.count()));
    } else if constexpr (std::is_same_v<Part, Duration>) {
      mix(static_cast<std::uint64_t>(part.count()));
    } else if constexpr (std::is_same_v<Part, double>) {
      mix(std::bit_cast<std::uint64_t>(part));
    } else if constexpr (std::is_same_v<Part, float>) {
      mix(std::bit_cast<std::uint32_t>(part));
    } else if constexpr (std::integral<Part> || std::is_enum_v<Part>) {
      mix(static_cast<std::uint64_t>(part));
    } else if constexpr (requires { part.index(), part.valueless_by_exception(); }) {
      mix(part.index());
      std::visit([this](const auto& value) { add(value); }, part);
    } else if constexpr (FieldedState<Part>) {
      std::apply([this](const auto&... fields) { this->add(fields...); }, fields_of(part));
    } else if constexpr (requires { part.add_to(*this); }) {
      part.add_to(*this);
    } else if constexpr (requires { std::begin(part); }) {
      add_range(part);
    } else if constexpr (requires { std::tuple_size<Part>::value; }) {
      std::apply([this](const auto&... elements) { this->add(elements...); }, part);
    } else {
      mix(static_cast<bool>(part) ? 1 : 0);
      if (part) add_one(*part);
    }
  }

  template <class Range>
  void add_range(const Range& range) {
    using Element = std::remove_cvref_t<decltype(*std::begin(range))>;
    mix(std::size(range));
    if constexpr (requires { std::span(range); } &&
                  (std::is_same_v<Element, std::byte> || std::is_same_v<Element, float>)) {
      mix_bytes(std::as_bytes(std::span(range)));
    } else {
      for (const auto& element : range) add_one(element);
    }
  }

  Time now_;
  Duration oldest_;
  std::uint64_t value_ = 0;
};

}  // namespace gv
