// A hash of a protocol object's whole state, which makes it possible to explore small worlds
// exhaustively.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "base/fields.hpp"
#include "base/rng.hpp"
#include "base/time.hpp"

namespace gv {

/// Adds the parts of a state one after another. A plain struct adds all its fields. A class, or a
/// struct with fields that do not count, defines `void add_to(StateHash&) const`.
class StateHash {
 public:
  /// Points in time are hashed relative to `now`, so that two states which differ only in when they
  /// were reached are equal.
  explicit StateHash(Time now) : now_(now) {}

  template <class... Parts>
  void add(const Parts&... parts) {
    (add_one(parts), ...);
  }

  std::uint64_t value() const { return value_; }

 private:
  void mix(std::uint64_t bits) { value_ = hash_combine(value_, bits); }

  void add_one(Time at) {
    mix(at == never ? ~std::uint64_t{0} : static_cast<std::uint64_t>((at - now_).count()));
  }
  void add_one(Duration duration) { mix(static_cast<std::uint64_t>(duration.count())); }
  void add_one(double value) { mix(std::bit_cast<std::uint64_t>(value)); }
  void add_one(float value) { mix(std::bit_cast<std::uint32_t>(value)); }
  template <class Value>
  requires(std::integral<Value> || std::is_enum_v<Value>) void add_one(Value value) {
    mix(static_cast<std::uint64_t>(value));
  }
  template <class First, class Second>
  void add_one(const std::pair<First, Second>& pair) {
    add(pair.first, pair.second);
  }
  template <class Value>
  void add_one(const std::optional<Value>& value) {
    mix(value.has_value() ? 1 : 0);
    if (value) add_one(*value);
  }
  template <class Range>
  requires requires(const Range& range) { std::begin(range); }
  void add_one(const Range& range) {
    mix(std::size(range));
    for (const auto& element : range) add_one(element);
  }
  template <class State>
  requires requires(const State& state, StateHash& hash) { state.add_to(hash); }
  void add_one(const State& state) { state.add_to(*this); }
  template <PlainStruct State>
  requires(!requires(const State& state, StateHash& hash) {
    state.add_to(hash);
  }) void add_one(const State& state) {
    std::apply([this](const auto&... fields) { add(fields...); }, fields_of(state));
  }

  Time now_;
  std::uint64_t value_ = 0;
};

}  // namespace gv
