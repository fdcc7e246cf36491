// Deep gradient compression: with a share of 1 it equals momentum, and with a smaller share it
// loses nothing.
#include "consensus/compression/dgc.hpp"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/rng.hpp"

namespace gv {
namespace {

using Floats = std::vector<float>;

Floats normals(std::size_t n, Rng& rng) {
  Floats values(n);
  for (float& value : values) value = static_cast<float>(rng.normal());
  return values;
}

Floats to_floats(const SparseVector& stream) {
  Floats values(stream.size());
  stream.add_to(values);
  return values;
}

std::vector<std::uint32_t> bits_of(const Floats& values) {
  std::vector<std::uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

Floats copied(std::span<const float> values) { return {values.begin(), values.end()}; }

}  // namespace

TEST_CASE("with a share of one deep gradient compression is momentum bit for bit") {
  const std::size_t d = 100;
  const float mu = 0.9f, rate = 0.05f;
  Dgc dgc({.momentum = 0.9}, d);
  Floats x(d, 1.0f), other = x, v(d);
  Rng rng(1);
  for (int step = 0; step < 50; ++step) {
    const Floats gradient = normals(d, rng);
    const Floats sent = to_floats(dgc.step(gradient, 1));
    for (std::size_t i = 0; i < d; ++i) {
      x[i] -= rate * sent[i];
      v[i] = mu * v[i] + gradient[i];
      other[i] -= rate * v[i];
    }
    REQUIRE(bits_of(x) == bits_of(other));
  }
}

TEST_CASE("where something was sent both buffers are zero and elsewhere they go on") {
  const std::size_t d = 200;
  Dgc dgc({.momentum = 0.5, .block = 50}, d);
  Rng rng(2);
  for (int step = 0; step < 20; ++step) {
    const Floats gradient = normals(d, rng);
    const Floats momentum = copied(dgc.momentum());
    const Floats waiting = copied(dgc.waiting());
    const SparseVector sent = dgc.step(gradient, 0.1);
    const std::vector<std::size_t> places = sent.indices();
    REQUIRE(places.size() == 20);  // Five values from each block.
    for (std::size_t i = 0; i < d; ++i) {
      const float u = 0.5f * momentum[i] + gradient[i];
      const float v = waiting[i] + u;
      const auto at = std::ranges::lower_bound(places, i);
      if (at != places.end() && *at == i) {
        REQUIRE(sent.values()[static_cast<std::size_t>(at - places.begin())] == v);
        REQUIRE(dgc.momentum()[i] == 0);
        REQUIRE(dgc.waiting()[i] == 0);
      } else {
        REQUIRE(dgc.momentum()[i] == u);
        REQUIRE(dgc.waiting()[i] == v);
      }
    }
  }
}

TEST_CASE("what is sent is the largest of what waits") {
  Dgc dgc({.momentum = 0}, 6);
  CHECK(to_floats(dgc.step(Floats{1, -5, 2, 3, 0, 0}, 1.0 / 3)) == Floats{0, -5, 0, 3, 0, 0});
  CHECK(to_floats(dgc.step(Floats{1, 0, 1, 0, 0, 0}, 0.3)) == Floats{2, 0, 3, 0, 0, 0});
  CHECK(dgc.step(Floats(6), 0.5).values().empty());
}

TEST_CASE("without momentum what was sent and what waits are all gradients") {
  const std::size_t d = 300;
  Dgc dgc({.momentum = 0}, d);
  std::vector<double> given(d), sent(d);
  Rng rng(3);
  for (int step = 0; step < 200; ++step) {
    const Floats gradient = normals(d, rng);
    const Floats part = to_floats(dgc.step(gradient, step % 50 == 49 ? 1 : 0.02));
    for (std::size_t i = 0; i < d; ++i) {
      given[i] += gradient[i];
      sent[i] += part[i];
    }
  }
  // Each step rounds one addition of values below 64.
  for (std::size_t i = 0; i < d; ++i) {
    REQUIRE(std::abs(sent[i] + dgc.waiting()[i] - given[i]) <= 200 * 64 * 0x1p-24);
  }
}

TEST_CASE("a share of one sends what has waited too") {
  Dgc dgc({.momentum = 0.5}, 2);
  CHECK(to_floats(dgc.step(Floats{1, 4}, 0.5)) == Floats{0, 4});  // Now u = (1, 0) and v = (1, 0).
  CHECK(to_floats(dgc.step(Floats{1, 1}, 1)) == Floats{2.5f, 1});
  CHECK(copied(dgc.waiting()) == Floats{0, 0});
  CHECK(copied(dgc.momentum()) == Floats{1.5f, 1});
}

TEST_CASE("the share falls by equal factors and then stays") {
  CHECK(dgc_share(0) == Approx(0.3162).epsilon(1e-3));
  CHECK(dgc_share(2) == Approx(0.0316).epsilon(1e-2));
  CHECK(dgc_share(4) == Approx(0.00316).epsilon(1e-2));
  for (const std::uint64_t generation : {5u, 6u, 1000u}) CHECK(dgc_share(generation) == 0.001);
  CHECK(dgc_share(0, 0.01, 0) == 0.01);
}

}  // namespace gv
