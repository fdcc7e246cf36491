// The order of indices: each sample goes to one peer, and each epoch has an order of its own.
#include "train/data/index_order.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <numeric>
#include <vector>

#include "base/rng.hpp"

namespace gv {
namespace {

using Indices = std::vector<std::uint64_t>;

Indices epoch_of(IndexOrder& order, std::uint64_t epoch) {
  Indices indices;
  for (std::uint64_t i = 0; i < order.part(); ++i) {
    indices.push_back(order.at(epoch * order.part() + i));
  }
  return indices;
}

Indices sorted(Indices indices) {
  std::ranges::sort(indices);
  return indices;
}

Indices all(std::uint64_t samples) {
  Indices indices(samples);
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

}  // namespace

TEST_CASE("the parts of all peers are every sample once", "[unit]") {
  for (const std::uint64_t samples : {1U, 2U, 7U, 100U, 1003U}) {
    Indices together;
    for (std::uint64_t peer = 0; peer < 3; ++peer) {
      IndexOrder order(samples, {.seed = 4, .peer = peer, .peers = 3});
      CHECK(order.part() >= samples / 3);
      CHECK(order.part() <= samples / 3 + 1);
      const Indices part = epoch_of(order, 0);
      together.insert(together.end(), part.begin(), part.end());
    }
    CHECK(sorted(together) == all(samples));
  }
}

TEST_CASE("an epoch is the same part in another order", "[unit]") {
  IndexOrder order(1000, {.seed = 4, .peer = 1, .peers = 4});
  const Indices first = epoch_of(order, 0);
  const Indices second = epoch_of(order, 1);
  CHECK(first != second);
  CHECK(sorted(first) == sorted(second));
  // The order is a function of the position, whatever positions were asked for before.
  CHECK(order.at(17) == first[17]);
  // The peer's part is not a range of the file, and it is not in the file's order.
  CHECK(first != sorted(first));
  CHECK(sorted(first) != Indices(all(250)));
}

TEST_CASE("with all samples each peer has an order of its own", "[unit]") {
  IndexOrder one(50, {.part = IndexRule::Part::all, .seed = 4, .peer = 0, .peers = 2});
  IndexOrder other(50, {.part = IndexRule::Part::all, .seed = 4, .peer = 1, .peers = 2});
  CHECK(sorted(epoch_of(one, 0)) == all(50));
  CHECK(epoch_of(one, 0) != epoch_of(other, 0));
}

TEST_CASE("the order of leased samples is the one of the built-in learner", "[unit]") {
  IndexOrder one(50, {.part = IndexRule::Part::common, .seed = 4, .peer = 0, .peers = 2});
  IndexOrder other(50, {.part = IndexRule::Part::common, .seed = 4, .peer = 1, .peers = 2});
  CHECK(epoch_of(one, 3) == epoch_of(other, 3));
  const KeyedPermutation built_in(50, Rng(4).fork("leased order").fork(std::uint64_t{3}).next());
  for (std::uint64_t i = 0; i < 50; ++i) CHECK(one.at(150 + i) == built_in.at(i));
}

}  // namespace gv
