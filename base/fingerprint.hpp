// A 64-bit fingerprint of a model, for comparing replicas without sending them.
#pragma once

#include <cstdint>
#include <span>

namespace gv {

/// The XXH64 hash (Collet 2012, seed 0) of the values' bytes. Equal bits give equal fingerprints;
/// different bits give different ones, except with a probability of 2^-64. Because bits are
/// compared, 0 differs from -0, and NaNs with different payloads differ. Runs at about 10 GB/s on
/// one thread. Not suitable for security. Machines of different byte order get different
/// fingerprints.
std::uint64_t fingerprint(std::span<const float> values);
/// The XXH64 hash of the doubles' bytes.
std::uint64_t fingerprint(std::span<const double> values);

}  // namespace gv
