// Evaluates power series, cut off where the next term no longer changes the result.
#include "base/portable_math.hpp"

#include <cmath>
#include <numbers>

#include "base/check.hpp"

namespace gv {

double integer_power(double base, std::uint64_t exponent) {
  double power = 1;
  for (; exponent != 0; exponent /= 2) {
    if (exponent % 2 != 0) power *= base;
    base *= base;
  }
  return power;
}

double cosine_of_half_turns(double half_turns) {
  check(half_turns >= 0 && half_turns <= 1, "an angle of at most half a turn");
  const bool is_obtuse = half_turns > 0.5;
  // cos a = 1 - 2 sin^2(a / 2), and the series for the sine converges quickly up to pi / 4.
  const double half = std::numbers::pi / 2 * (is_obtuse ? 1 - half_turns : half_turns);
  double series = 0;
  for (int k = 9; k > 0; --k) series = (1 + series) * (-half * half / (2 * k * (2 * k + 1)));
  const double sine = half * (1 + series);
  const double cosine = 1 - 2 * sine * sine;
  return is_obtuse ? -cosine : cosine;
}

double natural_logarithm(double x) {
  check(x > 0 && std::isfinite(x), "a logarithm of a finite number above 0");
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);  // In [1/2, 1), exact.
  if (mantissa < std::numbers::sqrt2 / 2) {
    mantissa *= 2;
    --exponent;
  }
  // log m = 2 (s + s^3 / 3 + s^5 / 5 + ...) with s = (m - 1) / (m + 1), where |s| < 0.172.
  const double s = (mantissa - 1) / (mantissa + 1);
  double series = 0;
  for (int k = 23; k > 1; k -= 2) series = (series + 1.0 / k) * (s * s);
  return exponent * std::numbers::ln2 + 2 * s * (1 + series);
}

}  // namespace gv
