// Implements sparse vectors, which store a sorted list of offsets for each block.
#include "consensus/codec/sparse_vector.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

#include "base/check.hpp"
#include "base/magnitude.hpp"
#include "base/wide.hpp"

namespace gv {
namespace {

constexpr std::size_t block_size = 65536;

std::size_t blocks_of(std::size_t size) { return (size + block_size - 1) / block_size; }

struct Header {
  std::uint8_t is_dense = 0;
  std::uint8_t codec = 0;
  std::uint16_t zero = 0;
  std::uint32_t size = 0;
  std::uint32_t values = 0;
};
static_assert(sizeof(Header) == 12);

/// The number that stands for a codec in encoded vectors.
std::uint8_t number_of(const Codec& codec) {
  const auto row = std::ranges::find(summable_codecs, codec, &NamedCodec::codec);
  check(row != summable_codecs.end(), "sparse vectors have summable codecs");
  return static_cast<std::uint8_t>(row - summable_codecs.begin());
}

/// The number of magnitudes that are at least `least`.
GV_WIDE std::size_t count_from(const std::vector<std::uint32_t>& magnitudes, std::uint32_t least) {
  std::uint32_t count = 0;
  for (const std::uint32_t magnitude : magnitudes) count += magnitude >= least;
  return count;
}

/// A threshold t such that the `k` largest magnitudes are >= t and all others <= t; 0 if there are
/// fewer than k. It is built bit by bit from at most 31 counts, which is faster than a partial sort
/// of 512 values.
std::uint32_t kth_largest(const std::vector<std::uint32_t>& magnitudes, std::size_t k) {
  std::uint32_t least = 0;
  for (std::uint32_t bit = 1u << 30; bit != 0; bit >>= 1) {
    const std::size_t count = count_from(magnitudes, least | bit);
    if (count >= k) least |= bit;
    if (count == k) break;
  }
  return least;
}

template <class T>
std::byte* write(const std::vector<T>& items, std::byte* out) {
  if (items.empty()) return out;
  std::memcpy(out, items.data(), items.size() * sizeof(T));
  return out + items.size() * sizeof(T);
}

/// Takes `count` items from the front of `bytes`, which must be long enough.
template <class T>
std::vector<T> read(std::span<const std::byte>& bytes, std::size_t count) {
  std::vector<T> items(count);
  if (count > 0) std::memcpy(items.data(), bytes.data(), count * sizeof(T));
  bytes = bytes.subspan(count * sizeof(T));
  return items;
}

/// True if the counts add up to the number of offsets, and offsets ascend within their block.
bool is_sound(std::size_t size, std::span<const std::uint32_t> counts,
              std::span<const std::uint16_t> offsets) {
  std::size_t at = 0;
  for (std::size_t block = 0; block < counts.size(); ++block) {
    const std::size_t length = std::min(block_size, size - block * block_size);
    if (counts[block] > offsets.size() - at) return false;
    const auto own = offsets.subspan(at, counts[block]);
    if (std::ranges::adjacent_find(own, std::greater_equal<>()) != own.end()) return false;
    if (!own.empty() && own.back() >= length) return false;
    at += own.size();
  }
  return at == offsets.size();
}

}  // namespace

SparseVector SparseVector::dense(std::vector<float> values) {
  check(values.size() <= std::numeric_limits<std::uint32_t>::max(), "a stream has 32-bit sizes");
  SparseVector stream;
  stream.size_ = values.size();
  stream.values_ = std::move(values);
  return stream;
}

SparseVector SparseVector::sparse(std::size_t size, std::span<const std::size_t> indices,
                                  std::vector<float> values) {
  check(size <= std::numeric_limits<std::uint32_t>::max(), "a stream has 32-bit sizes");
  check(indices.size() == values.size(), "every value has a place");
  SparseVector stream;
  stream.size_ = size;
  stream.dense_ = false;
  stream.values_ = std::move(values);
  stream.counts_.resize(blocks_of(size));
  stream.offsets_.reserve(indices.size());
  for (const std::size_t index : indices) {
    check(index < size, "a place is in the vector");
    ++stream.counts_[index / block_size];
    stream.offsets_.push_back(static_cast<std::uint16_t>(index % block_size));
  }
  check(std::ranges::adjacent_find(indices, std::greater_equal<>()) == indices.end(),
        "places ascend");
  return stream;
}

std::vector<std::size_t> SparseVector::indices() const {
  std::vector<std::size_t> indices(values_.size());
  if (dense_) {
    std::iota(indices.begin(), indices.end(), std::size_t{0});
    return indices;
  }
  std::size_t at = 0;
  for (std::size_t block = 0; block < counts_.size(); ++block) {
    for (const std::size_t end = at + counts_[block]; at < end; ++at) {
      indices[at] = block * block_size + offsets_[at];
    }
  }
  return indices;
}

void SparseVector::add_to(std::span<float> sum) const {
  check(sum.size() == size_, "vectors that are added have one size");
  if (dense_) {
    for (std::size_t i = 0; i < size_; ++i) sum[i] += values_[i];
    return;
  }
  std::size_t at = 0;
  for (std::size_t block = 0; block < counts_.size(); ++block) {
    for (const std::size_t end = at + counts_[block]; at < end; ++at) {
      sum[block * block_size + offsets_[at]] += values_[at];
    }
  }
}

std::size_t encoded_stream_size(bool is_dense, std::size_t size, std::size_t values,
                                const Codec& codec) {
  const std::size_t places =
      is_dense ? 0 : blocks_of(size) * sizeof(std::uint32_t) + values * sizeof(std::uint16_t);
  return sizeof(Header) + places + encoded_size(codec, values);
}

std::size_t encoded_size(const SparseVector& stream, const Codec& codec) {
  return encoded_stream_size(stream.is_dense(), stream.size(), stream.values().size(), codec);
}

SparseVector compact(SparseVector stream, const Codec& codec) {
  const std::size_t size = stream.size();
  if (encoded_size(stream, codec) <= encoded_stream_size(true, size, size, codec)) return stream;
  std::vector<float> values(size);
  stream.add_to(values);
  return SparseVector::dense(std::move(values));
}

SparseVector top_k_per_block(std::span<const float> gradient, std::span<float> residual,
                             std::size_t block, std::size_t k) {
  check(gradient.size() == residual.size(), "the residual has the gradient's size");
  check(block > 0, "a block has elements");
  for (std::size_t i = 0; i < gradient.size(); ++i) residual[i] += gradient[i];

  std::vector<std::size_t> taken;
  std::vector<std::uint32_t> magnitudes;
  for (std::size_t begin = 0; begin < residual.size(); begin += block) {
    const std::span<const float> values =
        residual.subspan(begin, std::min(block, residual.size() - begin));
    magnitudes.resize(values.size());
    // NaN ranks above all numbers, so that it is sent and noticed.
    std::ranges::transform(values, magnitudes.begin(), magnitude_bits);
    // Zeros are never taken, so the threshold is at least 1, the bits of the smallest magnitude
    // above zero.
    const std::uint32_t least = std::max(kth_largest(magnitudes, k), std::uint32_t{1});
    std::size_t of_the_least = k - std::min(k, count_from(magnitudes, least + 1));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool is_taken = magnitudes[i] > least || (magnitudes[i] == least && of_the_least > 0);
      if (!is_taken) continue;
      if (magnitudes[i] == least) --of_the_least;
      taken.push_back(begin + i);
    }
  }
  std::vector<float> values;
  values.reserve(taken.size());
  for (const std::size_t i : taken) values.push_back(std::exchange(residual[i], 0.0f));
  return SparseVector::sparse(residual.size(), taken, std::move(values));
}

void keep_error(const SparseVector& exact, const SparseVector& sent, std::span<float> residual) {
  check(exact.size() == residual.size(), "the residual has the gradient's size");
  const std::vector<std::size_t> indices = exact.indices();
  check(indices == sent.indices(), "what is sent has the places of what it stands for");
  for (std::size_t i = 0; i < indices.size(); ++i) {
    residual[indices[i]] += exact.values()[i] - sent.values()[i];
  }
}

std::vector<std::byte> encode(const SparseVector& stream, const Codec& codec, Rng& rng) {
  std::vector<std::byte> bytes(encoded_size(stream, codec));
  const Header header{.is_dense = stream.dense_,
                      .codec = number_of(codec),
                      .size = static_cast<std::uint32_t>(stream.size_),
                      .values = static_cast<std::uint32_t>(stream.values_.size())};
  std::memcpy(bytes.data(), &header, sizeof header);
  std::byte* out = bytes.data() + sizeof header;
  out = write(stream.counts_, out);
  out = write(stream.offsets_, out);
  encode(codec, stream.values_, rng, {out, bytes.data() + bytes.size()});
  return bytes;
}

std::optional<SparseVector> decode(std::span<const std::byte> bytes, std::size_t size) {
  Header header;
  if (bytes.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.is_dense > 1 || header.codec >= summable_codecs.size() || header.zero != 0) {
    return std::nullopt;
  }
  const Codec& codec = summable_codecs[header.codec].codec;
  if (header.size != size || header.values > size) return std::nullopt;
  const bool is_dense = header.is_dense == 1;
  if (is_dense && header.values != size) return std::nullopt;
  if (bytes.size() != encoded_stream_size(is_dense, size, header.values, codec))
    return std::nullopt;

  SparseVector stream;
  stream.size_ = size;
  stream.dense_ = is_dense;
  bytes = bytes.subspan(sizeof header);
  if (!is_dense) {
    stream.counts_ = read<std::uint32_t>(bytes, blocks_of(size));
    stream.offsets_ = read<std::uint16_t>(bytes, header.values);
    if (!is_sound(size, stream.counts_, stream.offsets_)) return std::nullopt;
  }
  stream.values_.resize(header.values);
  if (!decode(codec, bytes, stream.values_)) return std::nullopt;
  return stream;
}

}  // namespace gv
