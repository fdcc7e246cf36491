// Cereal archives for untrusted bytes: the length of the input bounds the cost of reading it.
#pragma once

#include <bit>
#include <cereal/cereal.hpp>
#include <cereal/types/array.hpp>
#include <cereal/types/utility.hpp>
#include <cereal/types/vector.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace gv {

/// Length of the longest string that either archive accepts, in bytes.
constexpr std::size_t archive_string_bytes_max = 4096;
/// Largest number of elements in a vector that either archive accepts.
constexpr std::size_t archive_elements_max = 1024;
/// Deepest nesting that the input archive follows. Cereal recurses, and the stack is finite.
constexpr int archive_depth_max = 32;

/// Thrown by the archives. The text is a sentence for the operator, without a full stop.
class ArchiveError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Types of numbers that have the same size on every platform. This excludes `long double`, which
/// also has padding that would be sent.
template <class T>
concept ArchiveNumber = std::is_arithmetic_v<T> && !std::is_same_v<T, long double>;

namespace archive_detail {

template <class T>
using Bits = std::conditional_t<
    sizeof(T) == 1, std::uint8_t,
    std::conditional_t<sizeof(T) == 2, std::uint16_t,
                       std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>>;

inline void require_at_most(std::uint64_t size, std::uint64_t limit, const char* what) {
  if (size <= limit) return;
  throw ArchiveError("a length of " + std::to_string(size) + " " + what + " is over the limit of " +
                     std::to_string(limit));
}

/// Refuses NaN and infinity, because later arithmetic does not check for them.
template <class T>
void require_finite(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(value)) throw ArchiveError("a number is not finite");
  }
}

}  // namespace archive_detail

/// Appends values to `bytes`: numbers are little-endian with fixed widths, and lengths have 32
/// bits. Enforces the reader's limits, so the reader accepts all output. Supports no smart pointers
/// and no polymorphic types.
class BoundedOutputArchive
    : public cereal::OutputArchive<BoundedOutputArchive, cereal::AllowEmptyClassElision> {
 public:
  /// `bytes` must outlive the archive.
  explicit BoundedOutputArchive(std::vector<std::byte>& bytes)
      : OutputArchive(this), bytes_(bytes) {}

  /// Writes one number.
  template <ArchiveNumber T>
  void write(T value) {
    auto bits = std::bit_cast<archive_detail::Bits<T>>(value);
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      bytes_.push_back(static_cast<std::byte>(static_cast<std::uint64_t>(bits) >> (8 * i) & 0xff));
    }
  }

  /// Writes a number in groups of seven bits, with the lowest group first. Every byte but the last
  /// has its highest bit set.
  void write_varint(std::uint64_t value) {
    for (; value > 0x7f; value >>= 7) write(static_cast<std::uint8_t>((value & 0x7f) | 0x80));
    write(static_cast<std::uint8_t>(value));
  }

  /// Writes the number of elements or bytes that follow. Throws if the number is over the limit.
  void write_size(std::uint64_t size, std::size_t limit, const char* what) {
    archive_detail::require_at_most(size, limit, what);
    write(static_cast<std::uint32_t>(size));
  }

 private:
  std::vector<std::byte>& bytes_;
};

/// Reads the output of BoundedOutputArchive. Throws ArchiveError at the first value that the writer
/// would not have written. Checks every length against the remaining bytes before it allocates.
class BoundedInputArchive
    : public cereal::InputArchive<BoundedInputArchive, cereal::AllowEmptyClassElision> {
 public:
  /// `bytes` must outlive the archive.
  explicit BoundedInputArchive(std::span<const std::byte> bytes)
      : InputArchive(this), bytes_(bytes) {}

  /// Reads one number.
  template <ArchiveNumber T>
  T read() {
    require(sizeof(T));
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      bits |= std::to_integer<std::uint64_t>(bytes_[i]) << (8 * i);
    }
    bytes_ = bytes_.subspan(sizeof(T));
    if constexpr (std::is_same_v<T, bool>) {
      // A bool that holds any other value is undefined behaviour.
      if (bits > 1) throw ArchiveError("a yes-or-no is " + std::to_string(bits) + ", not 0 or 1");
      return bits == 1;
    } else {
      return std::bit_cast<T>(static_cast<archive_detail::Bits<T>>(bits));
    }
  }

  /// Reads a number in groups of seven bits. Accepts only the number's shortest form.
  std::uint64_t read_varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto group = read<std::uint8_t>();
      // The tenth group can only hold the highest bit of the number.
      if (shift == 63 && group > 1) throw ArchiveError("a number has more than 64 bits");
      value |= static_cast<std::uint64_t>(group & 0x7f) << shift;
      if (group > 0x7f) continue;
      if (group == 0 && shift > 0) throw ArchiveError("a number is longer than it has to be");
      return value;
    }
  }

  /// Reads the number of elements that follow. Throws if fewer bytes remain, because each element
  /// takes at least one byte.
  std::size_t read_varint_size(std::size_t limit) {
    const std::uint64_t size = read_varint();
    archive_detail::require_at_most(size, limit, "elements");
    require(size);
    return size;
  }

  /// Reads the number of elements or bytes that follow. Throws if fewer bytes remain, because each
  /// element takes at least one byte.
  std::size_t read_size(std::size_t limit, const char* what) {
    const auto size = read<std::uint32_t>();
    archive_detail::require_at_most(size, limit, what);
    require(size);
    return size;
  }

  /// Reads a length and a string.
  void read_string(std::string& text) {
    const std::size_t size = read_size(archive_string_bytes_max, "bytes");
    text.assign(reinterpret_cast<const char*>(bytes_.data()), size);
    bytes_ = bytes_.subspan(size);
  }

  /// Throws if unread bytes remain.
  void finish() const {
    if (bytes_.empty()) return;
    throw ArchiveError("it goes on for " + std::to_string(bytes_.size()) + " bytes after its end");
  }

  /// Called when Cereal begins to read an object.
  void enter() {
    if (++depth_ > archive_depth_max) {
      throw ArchiveError("it is nested deeper than " + std::to_string(archive_depth_max) +
                         " levels");
    }
  }
  void leave() { --depth_; }

 private:
  void require(std::size_t count) const {
    if (count <= bytes_.size()) return;
    throw ArchiveError("it needs " + std::to_string(count) + " more bytes where " +
                       std::to_string(bytes_.size()) + " are left");
  }

  std::span<const std::byte> bytes_;
  int depth_ = 0;
};

template <class T>
concept BoundedArchive =
    std::is_same_v<T, BoundedInputArchive> || std::is_same_v<T, BoundedOutputArchive>;

// ---- Functions that Cereal finds by argument-dependent lookup ----

template <class T>
void prologue(BoundedInputArchive& archive, const T&) {
  archive.enter();
}

template <class T>
void epilogue(BoundedInputArchive& archive, const T&) {
  archive.leave();
}

template <ArchiveNumber T>
void save(BoundedOutputArchive& archive, const T& value) {
  archive_detail::require_finite(value);
  archive.write(value);
}

template <ArchiveNumber T>
void load(BoundedInputArchive& archive, T& value) {
  value = archive.read<T>();
  archive_detail::require_finite(value);
}

inline void save(BoundedOutputArchive& archive, const std::string& text) {
  archive.write_size(text.size(), archive_string_bytes_max, "bytes");
  for (const char c : text) archive.write(c);
}

inline void load(BoundedInputArchive& archive, std::string& text) { archive.read_string(text); }

template <class T>
void save(BoundedOutputArchive& archive, const cereal::SizeTag<T>& tag) {
  archive.write_size(tag.size, archive_elements_max, "elements");
}

template <class T>
void load(BoundedInputArchive& archive, cereal::SizeTag<T>& tag) {
  tag.size = archive.read_size(archive_elements_max, "elements");
}

template <BoundedArchive Archive, class T>
void serialize(Archive& archive, cereal::NameValuePair<T>& pair) {
  archive(pair.value);
}

}  // namespace gv

// Cereal would accept any number for an enumeration. With this specialisation, an enumeration
// compiles only if it has its own `load`, which checks the value.
template <gv::BoundedArchive Archive, class Enum>
requires std::is_enum_v<Enum>
struct cereal::specialize<Archive, Enum, cereal::specialization::non_member_load_save>
    : std::true_type {
};

CEREAL_SETUP_ARCHIVE_TRAITS(gv::BoundedInputArchive, gv::BoundedOutputArchive)
