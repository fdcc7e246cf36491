// Functions whose last bit, in the standard library, depends on the machine; here all machines
// agree.
#pragma once

#include <cstdint>

// The C library has versions of its functions for processors with and without fused multiplication,
// and each rounds in its own way. Peers that step together need the same bits, so what enters their
// parameters is computed here, by basic operations alone, which IEEE 754 rounds alike everywhere.

namespace gv {

/// base^exponent by repeated squaring. The relative error is at most about `exponent` roundings.
double integer_power(double base, std::uint64_t exponent);

/// The cosine of pi * `half_turns`, which is from 0 to 1, within 1e-15.
double cosine_of_half_turns(double half_turns);

/// The natural logarithm of a finite number above 0, within four units of the last place.
double natural_logarithm(double x);

}  // namespace gv
