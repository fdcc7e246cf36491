// The codecs for float32 values on a bulk lane.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace gv {

enum class Codec : std::uint8_t { identity = 0, fp16 = 1, bf16 = 2 };

std::string_view to_string(Codec codec);
std::optional<Codec> codec_from_name(std::string_view name);

/// Bytes of one element: 4, 2, 2.
std::size_t bytes_per_element(Codec codec);

/// Writes `values` into `out` (values.size() * bytes_per_element bytes), little-endian, rounded to
/// nearest even. A value out of range becomes infinity, which the guard refuses.
void encode(Codec codec, std::span<const float> values, std::span<std::byte> out);

/// The inverse: `bytes.size()` must be out.size() * bytes_per_element.
void decode(Codec codec, std::span<const std::byte> bytes, std::span<float> out);

/// The values of encoded bytes: the bytes themselves if they already are aligned floats, otherwise
/// decoded into `scratch`, which must have room for them.
std::span<const float> decoded(Codec codec, std::span<const std::byte> bytes,
                               std::span<float> scratch);

}  // namespace gv
