// A 64-bit fingerprint of a model-sized vector, to compare replicas without sending them.
#pragma once

#include <cstdint>
#include <span>

namespace gv {

/// The hash XXH64 (Collet 2012, seed 0) of the values' bytes. Equal bits give equal fingerprints;
/// different bits give different ones except with a probability of 2^-64. It compares bits: 0
/// differs from -0, and NaNs of different payloads differ. About 10 GB/s on one thread. Not for
/// security, and the same only among machines of one byte order.
std::uint64_t fingerprint(std::span<const float> values);
/// The same of doubles' bytes.
std::uint64_t fingerprint(std::span<const double> values);

}  // namespace gv
