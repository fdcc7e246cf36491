// Hashes of states: what they cover, what they leave out, and how forgotten fields are prevented.
#include "base/state_hash.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/own_copy.hpp"
#include "base/reuse.hpp"
#include "tests/consensus/value_swarm.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

/// A class whose fields are private.
class Closed {
 public:
  Closed(int first, double second) : first_(first), second_(second) {}
  friend class gv::Fields;
  static constexpr std::size_t field_count = 2;

 private:
  int first_;
  double second_;
};

bool alike(const auto& a, const auto& b) {
  const bool equal = equal_states(a, b);
  CHECK(equal == (hash_of(a, Time{}) == hash_of(b, Time{})));
  return equal;
}

}  // namespace

TEST_CASE("states that differ only in their age have one hash", "[unit]") {
  struct Timed {
    Time at{};
    Time idle = never;
  };
  CHECK(hash_of(Timed{Time(5s)}, Time(3s)) == hash_of(Timed{Time(9s)}, Time(7s)));
  CHECK(hash_of(Timed{Time(5s)}, Time(3s)) != hash_of(Timed{Time(5s)}, Time(4s)));
  const auto with_the_oldest = [](Time at) {
    StateHash hash(Time(9s), 4s);
    hash.add(at);
    return hash.value();
  };
  CHECK(with_the_oldest(Time(1s)) == with_the_oldest(Time(5s)));
  CHECK(with_the_oldest(Time(5s)) != with_the_oldest(Time(6s)));
}

TEST_CASE("every field of a class counts although it is private", "[unit]") {
  CHECK(alike(Closed(1, 2), Closed(1, 2)));
  CHECK_FALSE(alike(Closed(1, 2), Closed(2, 2)));
  CHECK_FALSE(alike(Closed(1, 2), Closed(1, 3)));
}

TEST_CASE("a pointer counts as what it points to and an owner not at all", "[unit]") {
  const auto two = std::make_shared<const std::vector<float>>(2, 1.0f);
  const auto same = std::make_shared<const std::vector<float>>(2, 1.0f);
  const auto three = std::make_shared<const std::vector<float>>(3, 1.0f);
  CHECK(alike(two, same));
  CHECK_FALSE(alike(two, three));
  CHECK_FALSE(alike(two, decltype(two)()));
  struct Lent {
    std::shared_ptr<const void> owner;
    std::function<int()> make;
    std::span<const float> values;
  };
  CHECK(alike(Lent{two, {}, *two}, Lent{same, [] { return 1; }, *same}));
  CHECK_FALSE(alike(Lent{two, {}, *two}, Lent{two, {}, *three}));
}

TEST_CASE("what is empty differs from what holds a zero", "[unit]") {
  CHECK_FALSE(alike(std::optional<int>(), std::optional(0)));
  CHECK_FALSE(alike(std::vector<int>(), std::vector<int>{0}));
  CHECK_FALSE(alike(std::string(), std::string(1, '\0')));
  CHECK_FALSE(alike(std::string("nine bytes"), std::string("nine bytez")));
  CHECK_FALSE(alike(std::variant<int, char>(0), std::variant<int, char>('\0')));
  CHECK_FALSE(alike(0.0, -0.0));
}

TEST_CASE("a copy of shared memory that is written to is memory of its own", "[unit]") {
  OwnCopy<int> written(std::make_shared<int>(1));
  const std::shared_ptr<int> lent = written;
  OwnCopy<int> copy = written;
  *written = 2;
  CHECK(*lent == 2);
  CHECK(*copy == 1);
  Reuse<int> pool(1);
  const std::shared_ptr<int> used = pool.take();
  Reuse<int> other = pool;
  CHECK(other.take() != used);
  CHECK(alike(pool, other));
}

}  // namespace gv
