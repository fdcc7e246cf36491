// Lossy codes as bytes: their sizes, and which bytes are refused.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/fingerprint.hpp"
#include "base/rng.hpp"
#include "consensus/codec/codec.hpp"
#include "consensus/codec/sparse_vector.hpp"
#include "tests/consensus/codec_lab.hpp"

namespace gv {

TEST_CASE("sizes of lossy codes are exact") {
  const auto size = [](CodecKind kind, std::size_t d, double fraction = 0.01,
                       unsigned levels = 127) {
    return encoded_size({.kind = kind, .fraction = fraction, .levels = levels}, d);
  };
  for (const std::size_t d : {1u, 2u, 511u, 512u, 513u, 1025u}) {
    const std::size_t scales = 4 * ((d + 511) / 512);
    CHECK(size(CodecKind::identity, d) == 4 * d);
    CHECK(size(CodecKind::fp16, d) == 2 * d);
    CHECK(size(CodecKind::bf16, d) == 2 * d);
    CHECK(size(CodecKind::qsgd, d) == scales + d);
    CHECK(size(CodecKind::qsgd, d, 1, 64) == scales + d);
    CHECK(size(CodecKind::qsgd, d, 1, 15) == scales + (5 * d + 7) / 8);
    CHECK(size(CodecKind::qsgd, d, 1, 7) == scales + (d + 1) / 2);
    CHECK(size(CodecKind::qsgd, d, 1, 3) == scales + (3 * d + 7) / 8);
    CHECK(size(CodecKind::terngrad, d) == scales + (d + 3) / 4);
    CHECK(size(CodecKind::sign, d) == scales + (d + 7) / 8);
    CHECK(size(CodecKind::random_k, d, 1) == 8 + 4 * d);
    CHECK(size(CodecKind::top_k, d, 1) == 12 + 4 * d);  // Indices would take more bytes.
  }
  CHECK(size(CodecKind::random_k, 1000) == 8 + 10 * 4);
  CHECK(size(CodecKind::random_k, 1001) == 8 + 11 * 4);
  CHECK(size(CodecKind::top_k, 1000) == 12 + 4 + 10 * 6);
  CHECK(size(CodecKind::top_k, 200000) == 12 + 4 * 4 + 2000 * 6);
}

TEST_CASE("all vectors of one size are as long in bytes and every byte is written") {
  Rng rng(17);
  for (const Codec& codec : codecs) {
    CHECK(encoded_size(codec, 0) == 0);
    CHECK(passed_through(codec, {}, rng).empty());
    for (const std::size_t d : {1u, 9u, 513u, 1300u}) {
      const Floats x = any_vector(d, rng);
      Bytes one(encoded_size(codec, d), std::byte{0x00});
      Bytes other(encoded_size(codec, d), std::byte{0xff});
      Rng same(18), as_same(18);
      encode(codec, x, same, one);
      encode(codec, x, as_same, other);
      INFO(name_of(codec) << " of " << d);
      CHECK(one == other);
      CHECK(same.next() == as_same.next());
    }
  }
}

TEST_CASE("only codecs that draw move the generator") {
  for (const Codec& codec : codecs) {
    Rng rng(19);
    encoded(codec, Floats(600, 1.0f), rng);
    const bool draws = codec.kind == CodecKind::qsgd || codec.kind == CodecKind::terngrad ||
                       codec.kind == CodecKind::random_k;
    CHECK((rng.next() == Rng(19).next()) == !draws);
  }
}

TEST_CASE("what is not finite is refused by every lossy codec wherever it stands") {
  Rng rng(20);
  const float infinity = std::numeric_limits<float>::infinity();
  for (const Codec& codec : codecs) {
    INFO(name_of(codec));
    for (const float bad : {infinity, -infinity, std::nanf(""), -std::nanf("")}) {
      CHECK(passed_through(codec, {bad}, rng).empty());
      for (const std::size_t place : {0u, 300u, 511u, 512u, 599u}) {
        Floats x(600, 1.0f);
        CHECK(passed_through(codec, x, rng).size() == 600);
        x[place] = bad;
        CHECK(passed_through(codec, x, rng).empty());
      }
    }
  }
}

TEST_CASE("what becomes infinite as it is written is refused") {
  Rng rng(21);
  const Floats x(10, std::numeric_limits<float>::max());
  CHECK(passed_through({.kind = CodecKind::random_k, .fraction = 0.5}, x, rng).empty());
  CHECK(passed_through({.kind = CodecKind::fp16}, x, rng).empty());
  CHECK(passed_through({.kind = CodecKind::bf16}, x, rng).empty());
  for (const CodecKind kind : {CodecKind::qsgd, CodecKind::terngrad, CodecKind::sign}) {
    CHECK(passed_through({.kind = kind}, x, rng) == x);
  }
}

TEST_CASE("lossy codes of another size are refused") {
  Rng rng(22);
  Floats out(600);
  for (const Codec& codec : codecs) {
    Bytes bytes = encoded(codec, normals(600, rng), rng);
    INFO(name_of(codec));
    CHECK(decode(codec, bytes, out));
    CHECK_FALSE(decode(codec, std::span(bytes).first(bytes.size() - 1), out));
    CHECK_FALSE(decode(codec, {}, out));
    bytes.push_back({});
    CHECK_FALSE(decode(codec, bytes, out));
  }
}

TEST_CASE("scales below zero and levels above the last are refused") {
  Rng rng(23);
  Floats out(3);
  for (const CodecKind kind : {CodecKind::qsgd, CodecKind::terngrad, CodecKind::sign}) {
    Bytes bytes = encoded({.kind = kind}, {1, 2, 3}, rng);
    CHECK(decode({.kind = kind}, bytes, out));
    bytes[3] |= std::byte{0x80};
    CHECK_FALSE(decode({.kind = kind}, bytes, out));
  }
  const Codec five{.kind = CodecKind::qsgd, .levels = 5};
  Bytes bytes = encoded(five, {0, 5, 5}, rng);
  bytes[4] = std::byte{0x55};  // The two codes of this byte take four bits each: 5 and 5.
  CHECK(decode(five, bytes, out));
  bytes[4] = std::byte{0x65};
  CHECK_FALSE(decode(five, bytes, out));
}

TEST_CASE("a stream with another number of values is no top k") {
  Rng rng(24);
  const Codec codec{.kind = CodecKind::top_k, .fraction = 0.1};
  Bytes bytes = encoded(codec, normals(100, rng), rng);
  Floats out(100);
  CHECK(decode(codec, bytes, out));
  // The same bytes are refused if they are marked as another form or another codec, or if their
  // indices are out of order.
  Bytes dense = bytes;
  dense[0] = std::byte{1};
  CHECK_FALSE(decode(codec, dense, out));
  Bytes halves = bytes;
  halves[1] = std::byte{1};
  CHECK_FALSE(decode(codec, halves, out));
  Bytes unsorted = bytes;
  std::swap(unsorted[16], unsorted[18]);
  CHECK_FALSE(decode(codec, unsorted, out));
  Bytes other = encoded({.kind = CodecKind::top_k, .fraction = 0.2}, normals(100, rng), rng);
  CHECK_FALSE(decode(codec, other, out));
  // Four dense values take as many bytes as two values with their indices.
  const Codec all{.kind = CodecKind::top_k, .fraction = 1};
  const Bytes two =
      encode(SparseVector::sparse(4, std::vector<std::size_t>{1, 3}, {1, 2}), Codec::identity, rng);
  Floats four(4);
  CHECK(two.size() == encoded_size(all, 4));
  CHECK_FALSE(decode(all, two, four));
}

TEST_CASE("any bytes give finite values or are refused") {
  Rng rng(25);
  int accepted = 0, refused = 0;
  for (const Codec& codec : codecs) {
    for (int i = 0; i < 2000; ++i) {
      const std::size_t d = 1 + rng.below(i % 20 == 0 ? 1200 : 60);
      Bytes bytes = encoded(codec, any_vector(d, rng), rng);
      const bool is_noise = rng.chance(0.3);
      if (is_noise) {
        for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.next());
      }
      for (std::uint64_t damage = 1 + rng.below(3); damage > 0; --damage) {
        bytes[rng.below(bytes.size())] = static_cast<std::byte>(rng.next());
      }
      if (rng.chance(0.05)) bytes.resize(rng.below(bytes.size() + 20));
      Floats out(d);
      const bool is_sound = decode(codec, bytes, out);
      ++(is_sound ? accepted : refused);
      if (!is_sound) continue;
      for (const float value : out) REQUIRE(std::isfinite(value));
    }
  }
  CHECK(accepted > 1000);
  CHECK(refused > 1000);
}

// The hashes were recorded on x86. Peers that keep copies of each other's models must decode the
// same values.
TEST_CASE("codecs write the same bytes and read the same values on every machine") {
  Rng rng(24);
  std::string written;
  Floats read;
  for (const Codec& codec : codecs) {
    const Floats x = normals(1300, rng);
    const Bytes bytes = encoded(codec, x, rng);
    for (const std::byte byte : bytes) written.push_back(static_cast<char>(byte));
    Floats out(x.size());
    REQUIRE(decode(codec, bytes, out));
    read.insert(read.end(), out.begin(), out.end());
  }
  CHECK(stable_hash(written) == 0x81d86fc555751837ULL);
  CHECK(fingerprint(read) == 0xb57e2dd79513af43ULL);
}

}  // namespace gv
