// Functions that return the same bits on every machine, unlike those of the standard library.
#pragma once

#include <cstdint>

// The C library has versions of its functions for processors with and without fused multiplication,
// and these versions round differently. Peers that train in lockstep need the same bits. So
// the functions below, whose results enter the parameters, use basic operations alone, which IEEE
// 754 rounds alike everywhere.

namespace gv {

/// Computes base^exponent by repeated squaring. The relative error is at most about `exponent`
/// roundings.
double integer_power(double base, std::uint64_t exponent);

/// The cosine of pi * `half_turns`, within 1e-15. `half_turns` must be from 0 to 1.
double cosine_of_half_turns(double half_turns);

/// The natural logarithm of a finite number above 0, within four units in the last place.
double natural_logarithm(double x);

}  // namespace gv
