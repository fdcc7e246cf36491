// Computes norms and clip factors.
#include "base/comparison.hpp"

#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "base/wide.hpp"

namespace gv {
namespace {

constexpr std::size_t width = 16;

/// Writes theirs - ours to `difference`. Adds the squares of each array's elements to the 16
/// partial sums of that array. `n` must be a multiple of 16.
GV_WIDE void compare_rows(const float* __restrict theirs, const float* __restrict ours,
                          float* __restrict difference, std::size_t n,
                          double* __restrict theirs_sums, double* __restrict ours_sums,
                          double* __restrict difference_sums) {
  double t[width], o[width], d[width];
  for (std::size_t lane = 0; lane < width; ++lane) {
    t[lane] = theirs_sums[lane];
    o[lane] = ours_sums[lane];
    d[lane] = difference_sums[lane];
  }
  for (std::size_t i = 0; i < n; i += width) {
    for (std::size_t lane = 0; lane < width; ++lane) {
      const float a = theirs[i + lane];
      const float b = ours[i + lane];
      const float c = a - b;
      difference[i + lane] = c;
      t[lane] += static_cast<double>(a) * a;
      o[lane] += static_cast<double>(b) * b;
      d[lane] += static_cast<double>(c) * c;
    }
  }
  for (std::size_t lane = 0; lane < width; ++lane) {
    theirs_sums[lane] = t[lane];
    ours_sums[lane] = o[lane];
    difference_sums[lane] = d[lane];
  }
}

double root_of_sum(const std::array<double, width>& sums) {
  double sum = 0;
  for (const double part : sums) sum += part;
  return std::sqrt(sum);
}

}  // namespace

void Comparison::add(std::span<const float> theirs, std::span<const float> ours,
                     std::span<float> difference) {
  static_assert(lanes == width);
  check(theirs.size() == ours.size() && ours.size() == difference.size(),
        "models are compared element by element");
  std::size_t at = 0;
  const auto one = [&] {
    const std::size_t lane = count_++ % lanes;
    const float c = theirs[at] - ours[at];
    difference[at] = c;
    theirs_[lane] += static_cast<double>(theirs[at]) * theirs[at];
    ours_[lane] += static_cast<double>(ours[at]) * ours[at];
    difference_[lane] += static_cast<double>(c) * c;
    ++at;
  };
  while (at < theirs.size() && count_ % lanes != 0) one();
  const std::size_t whole = (theirs.size() - at) / lanes * lanes;
  compare_rows(theirs.data() + at, ours.data() + at, difference.data() + at, whole, theirs_.data(),
               ours_.data(), difference_.data());
  at += whole;
  count_ += whole;
  while (at < theirs.size()) one();
}

double Comparison::their_norm() const { return root_of_sum(theirs_); }
double Comparison::our_norm() const { return root_of_sum(ours_); }
double Comparison::distance() const { return root_of_sum(difference_); }

double clip_factor(double radius, double distance) {
  if (radius <= 0 || distance <= radius) return 1;
  return radius / distance;
}

float smaller_radius(float a, float b) {
  if (a <= 0) return std::max(b, 0.0f);
  if (b <= 0) return a;
  return std::min(a, b);
}

}  // namespace gv
