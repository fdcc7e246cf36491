// Sparse vectors become dense when that is shorter, lose nothing and refuse bad bytes.
#include "consensus/codec/sparse_vector.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <limits>
#include <numeric>
#include <vector>

#include "base/rng.hpp"

namespace gv {
namespace {

using Floats = std::vector<float>;

constexpr std::initializer_list<Codec> codecs = {Codec::identity, Codec::fp16, Codec::bf16,
                                                 Codec::qsgd8, Codec::qsgd4};

/// Small integers at random indices. Their sums are exact in float.
SparseVector random_stream(std::size_t size, double density, Rng& rng) {
  std::vector<std::size_t> indices;
  Floats values;
  for (std::size_t i = 0; i < size; ++i) {
    if (!rng.chance(density)) continue;
    indices.push_back(i);
    values.push_back(static_cast<float>(rng.below(2001)) - 1000);
  }
  return SparseVector::sparse(size, indices, std::move(values));
}

Floats to_floats(const SparseVector& stream) {
  Floats values(stream.size());
  stream.add_to(values);
  return values;
}

Floats normals(std::size_t n, Rng& rng) {
  Floats values(n);
  for (float& value : values) value = static_cast<float>(rng.normal());
  return values;
}

double squares(const Floats& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return sum;
}

/// A sparse vector that stores the first `present` of `size` elements.
SparseVector first_of(std::size_t present, std::size_t size) {
  std::vector<std::size_t> indices(present);
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  return SparseVector::sparse(size, indices, Floats(present, 1.0f));
}

}  // namespace

// ---- Form ----

TEST_CASE("a stream becomes dense exactly when that takes fewer bytes") {
  const Codec codec = GENERATE(values(codecs));
  constexpr std::size_t size = 2000;
  std::size_t switched = 0;
  for (std::size_t present = 0; present <= size; ++present) {
    const SparseVector sparse = first_of(present, size);
    const std::size_t dense_bytes = encoded_size(SparseVector::dense(Floats(size)), codec);
    const SparseVector compacted = compact(sparse, codec);
    REQUIRE(compacted.is_dense() == (encoded_size(sparse, codec) > dense_bytes));
    REQUIRE(to_floats(compacted) == to_floats(sparse));
    if (switched == 0 && compacted.is_dense()) switched = present;
  }
  // With nnz of N values stored and v bytes for a value, the vector becomes dense if nnz (2 + v) +
  // 4 > N v. The 4 bytes hold the block's count.
  if (codec == Codec::identity) CHECK(switched == (4 * size - 4) / 6 + 1);
  if (codec == Codec::fp16) CHECK(switched == (2 * size - 4) / 4 + 1);
}

// ---- Top-k with error feedback ----

TEST_CASE("the largest of every block are taken and the rest is left for the next time") {
  Floats residual{0, 0, 1, 0, 0, 0, 0};
  const Floats gradient{1, -5, 2, 4, 0, 0, -1};
  const SparseVector taken = top_k_per_block(gradient, residual, 4, 2);
  CHECK(taken.indices() == std::vector<std::size_t>{1, 3, 6});
  CHECK(to_floats(taken) == Floats{0, -5, 0, 4, 0, 0, -1});
  CHECK(residual == Floats{1, 0, 3, 0, 0, 0, 0});
}

TEST_CASE("of equal magnitudes the first are taken") {
  Floats residual(600);
  Floats gradient(600, 1.0f);
  gradient[1] = -1;
  const SparseVector taken = top_k_per_block(gradient, residual, 512, 3);
  CHECK(taken.indices() == std::vector<std::size_t>{0, 1, 2, 512, 513, 514});
}

TEST_CASE("what is left has at most its share of the squares") {
  constexpr std::size_t block = 16;
  Rng rng(4);
  for (int i = 0; i < 10000; ++i) {
    Floats values = normals(1 + rng.below(50), rng);
    const int kind = static_cast<int>(rng.below(5));
    for (float& value : values) {
      if (kind == 1) value = 0;
      if (kind == 2) value = value < 0 ? -3.0f : 3.0f;                         // Makes ties.
      if (kind == 3) value *= std::numeric_limits<float>::denorm_min() * 100;  // Subnormal numbers.
      if (kind == 4 && rng.chance(0.9)) value = 0;
    }
    const std::size_t k = rng.below(block + 1);
    Floats residual(values.size());
    const SparseVector taken = top_k_per_block(values, residual, block, k);
    const double share = static_cast<double>(k) / block;
    REQUIRE(squares(residual) <= (1 - share) * squares(values) * (1 + 1e-12));
    REQUIRE(taken.values().size() <= k * ((values.size() + block - 1) / block));
    // Selecting changes no value: the selected values and the rest add up to the vector.
    taken.add_to(residual);
    REQUIRE(residual == values);
  }
}

TEST_CASE("a value that is no number is taken first so that it is found") {
  Floats residual(512);
  Floats gradient(512, 1e30f);
  gradient[300] = std::nanf("");
  const SparseVector taken = top_k_per_block(gradient, residual, 512, 1);
  CHECK(taken.indices() == std::vector<std::size_t>{300});
  Rng rng(5);
  CHECK_FALSE(decode(encode(taken, Codec::identity, rng), 512));
}

TEST_CASE("all that was sent and the last residual are all gradients") {
  constexpr std::size_t size = 1000;
  Rng rng(6);
  Floats residual(size);
  Floats sent(size);
  Floats gradients(size);
  for (int round = 0; round < 1000; ++round) {
    Floats gradient(size);
    for (float& value : gradient) value = static_cast<float>(rng.below(201)) - 100;
    SparseVector::dense(gradient).add_to(gradients);
    top_k_per_block(gradient, residual).add_to(sent);
  }
  SparseVector::dense(residual).add_to(sent);
  CHECK(sent == gradients);  // The sums are exact, because the values are integers below 2^24.
}

TEST_CASE("what a codec loses goes into the residual too") {
  const Codec codec = GENERATE(values(codecs));
  constexpr std::size_t size = 1000;
  constexpr int rounds = 1000;
  Rng rng(7);
  Floats residual(size);
  std::vector<double> sent(size), gradients(size);
  for (int round = 0; round < rounds; ++round) {
    const Floats gradient = normals(size, rng);
    const SparseVector taken = top_k_per_block(gradient, residual);
    const auto arrived = decode(encode(taken, codec, rng), size);
    REQUIRE(arrived);
    keep_error(taken, *arrived, residual);
    const Floats values = to_floats(*arrived);
    for (std::size_t i = 0; i < size; ++i) {
      sent[i] += values[i];
      gradients[i] += gradient[i];
    }
  }
  double worst = 0;
  for (std::size_t i = 0; i < size; ++i) {
    worst = std::max(worst, std::abs(sent[i] + residual[i] - gradients[i]));
  }
  // Each round makes two float additions to residuals below 256, each with an error of at most
  // 2^-17. The errors grow like a random walk, to 2^-17 sqrt(2 rounds). The largest of a thousand
  // such errors is within four times that size.
  CHECK(worst < 4 * std::ldexp(std::sqrt(2.0 * rounds), -17));
}

TEST_CASE("an error that is fed back stays small") {
  constexpr std::size_t size = 1024;
  const auto residual_after_rounds = [](Codec codec, std::size_t k) {
    Rng rng(15);
    Floats residual(size);
    for (int round = 0; round < 100; ++round) {
      const SparseVector taken = top_k_per_block(normals(size, rng), residual, 512, k);
      const auto arrived = decode(encode(taken, codec, rng), size);
      REQUIRE(arrived);
      keep_error(taken, *arrived, residual);
    }
    return std::sqrt(squares(residual) / size);
  };
  CHECK(residual_after_rounds(Codec::bf16, 512) < 0.01);
  // The bounds follow from the square root of the loss on normally distributed values. That loss is
  // 0.0002 for qsgd8 and 0.06 for qsgd4.
  CHECK(residual_after_rounds(Codec::qsgd8, 512) < 0.02);
  CHECK(residual_after_rounds(Codec::qsgd4, 512) < 0.3);
  // If 16 of 512 values are kept, three quarters of the sum of squares wait for about thirty
  // rounds.
  CHECK(residual_after_rounds(Codec::qsgd4, 16) < 20);
}

// ---- Bytes ----

TEST_CASE("a stream survives its bytes and their number is the formula") {
  Rng rng(8);
  for (const std::size_t size : {0u, 1u, 511u, 65536u, 140000u}) {
    for (const double density : {0.0, 0.01, 0.3}) {
      const SparseVector sparse = random_stream(size, density, rng);
      const SparseVector dense = SparseVector::dense(normals(size, rng));
      for (const SparseVector& stream : {sparse, dense}) {
        const auto bytes = encode(stream, Codec::identity, rng);
        const std::size_t values = stream.values().size();
        const std::size_t places = stream.is_dense() ? 0 : (size + 65535) / 65536 * 4 + values * 2;
        CHECK(bytes.size() == 12 + places + values * 4);
        CHECK(bytes.size() == encoded_size(stream, Codec::identity));
        const auto decoded = decode(bytes, size);
        REQUIRE(decoded);
        CHECK(*decoded == stream);
      }
    }
  }
}

TEST_CASE("every codec keeps places and brings values near") {
  const Codec codec = GENERATE(values(codecs));
  Rng rng(9);
  const SparseVector stream = random_stream(100000, 0.02, rng);
  const auto bytes = encode(stream, codec, rng);
  CHECK(bytes.size() == encoded_size(stream, codec));
  const auto decoded = decode(bytes, stream.size());
  REQUIRE(decoded);
  CHECK(decoded->indices() == stream.indices());
  double error = 0;
  double all = 0;
  for (std::size_t i = 0; i < stream.values().size(); ++i) {
    error += std::pow(decoded->values()[i] - stream.values()[i], 2);
    all += std::pow(stream.values()[i], 2);
  }
  // The margins bound QSGD's loss on normally distributed values, including the loss's variation.
  CHECK(error <= (codec == Codec::qsgd4 ? 0.08 : 0.001) * all);
}

TEST_CASE("sixteen of every 512 in four bits are a fiftieth of the floats") {
  Rng rng(10);
  constexpr std::size_t size = 512 * 128;
  Floats residual(size);
  const SparseVector taken = top_k_per_block(normals(size, rng), residual);
  REQUIRE(taken.values().size() == 16 * 128);
  const double dense =
      static_cast<double>(encoded_size(SparseVector::dense(Floats(size)), Codec::identity));
  // Each value takes 2 bytes for the index and half a byte for itself: 40 bytes instead of 2048,
  // plus the scales.
  CHECK(dense / static_cast<double>(encoded_size(taken, Codec::qsgd4)) == Approx(51).margin(1));
}

TEST_CASE("truncated and prolonged bytes are refused") {
  const Codec codec = GENERATE(values(codecs));
  Rng rng(11);
  for (const SparseVector& stream :
       {random_stream(300, 0.2, rng), SparseVector::dense(normals(300, rng))}) {
    auto bytes = encode(stream, codec, rng);
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      REQUIRE_FALSE(decode(std::span(bytes).first(length), 300));
    }
    REQUIRE(decode(bytes, 300));
    bytes.push_back({});
    REQUIRE_FALSE(decode(bytes, 300));
  }
}

TEST_CASE("bytes of another vector or with places out of order are refused") {
  Rng rng(12);
  const std::vector<std::size_t> indices{3, 7, 65536, 65539};
  const SparseVector stream = SparseVector::sparse(65540, indices, Floats(4, 1.0f));
  const auto bytes = encode(stream, Codec::identity, rng);
  REQUIRE(decode(bytes, 65540));
  CHECK_FALSE(decode(bytes, 65541));
  CHECK_FALSE(decode(bytes, 0));
  // The encoding is a header of 12 bytes, two counts of 4 bytes, four indices of 2 bytes, and the
  // values.
  const auto with = [&](std::size_t at, int value) {
    auto changed = bytes;
    changed[at] = static_cast<std::byte>(value);
    return decode(changed, 65540);
  };
  CHECK_FALSE(with(0, 2));  // There is no such form.
  CHECK_FALSE(with(0, 1));  // The form is dense, but there are only four values.
  CHECK_FALSE(with(1, 5));  // There is no such codec.
  CHECK_FALSE(with(2, 1));  // This byte must be zero.
  CHECK_FALSE(with(3, 1));
  CHECK_FALSE(with(8, 3));   // The header gives fewer values than the bytes hold.
  CHECK_FALSE(with(12, 3));  // The counts add up to five.
  CHECK_FALSE(with(12, 1));  // The counts add up to three.
  CHECK_FALSE(with(20, 7));  // The same index occurs twice.
  CHECK_FALSE(with(20, 8));  // The indices descend.
  CHECK_FALSE(with(26, 4));  // The index is beyond the last block, which has four elements.
  CHECK(with(20, 6));
  CHECK_FALSE(with(31, 0x7f));  // 1.0 becomes infinity.
}

TEST_CASE("random bytes are never more than refused") {
  Rng rng(13);
  int accepted = 0;
  for (int i = 0; i < 10000; ++i) {
    const std::size_t size = rng.below(100);
    std::vector<std::byte> bytes(rng.below(200));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.next());
    accepted += decode(bytes, size).has_value();
  }
  CHECK(accepted == 0);  // The chance that random bytes form a valid header is 2^-40.
}

TEST_CASE("damaged bytes give a sound stream or none") {
  const Codec codec = GENERATE(values(codecs));
  Rng rng(14);
  int accepted = 0;
  for (int i = 0; i < 10000; ++i) {
    const std::size_t size = 1 + rng.below(100);
    const SparseVector stream =
        rng.chance(0.5) ? random_stream(size, 0.2, rng) : SparseVector::dense(normals(size, rng));
    auto bytes = encode(stream, codec, rng);
    for (std::uint64_t damage = 1 + rng.below(3); damage > 0; --damage) {
      bytes[rng.below(bytes.size())] = static_cast<std::byte>(rng.next());
    }
    if (rng.chance(0.1)) bytes.resize(rng.below(bytes.size() + 20));
    const auto decoded = decode(bytes, size);
    if (!decoded) continue;
    ++accepted;
    const std::vector<std::size_t> indices = decoded->indices();
    REQUIRE(decoded->size() == size);
    REQUIRE(indices.size() == decoded->values().size());
    REQUIRE(std::ranges::adjacent_find(indices, std::greater_equal<>()) == indices.end());
    REQUIRE((indices.empty() || indices.back() < size));
    for (const float value : decoded->values()) REQUIRE(std::isfinite(value));
    // The result must not depend on anything but these bytes.
    if (codec == Codec::identity) REQUIRE(encode(*decoded, codec, rng) == bytes);
  }
  CHECK(accepted > 100);  // Many cases damaged only values, so the checks above really ran.
}

}  // namespace gv
