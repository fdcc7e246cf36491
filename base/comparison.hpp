// The norms and distance of two models, and the factor that limits how far one moves the other.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace gv {

/// Compares two models piece by piece in one pass over memory. Squares are summed in double
/// precision in 16 interleaved partial sums, chosen by an element's position in the whole model.
/// The result therefore depends neither on how the model was cut into pieces nor on the sign of the
/// differences. So both ends of an exchange get the same bits.
class Comparison {
 public:
  /// Takes the next elements of both models, and writes theirs - ours to `difference`. All three
  /// spans have the same size.
  void add(std::span<const float> theirs, std::span<const float> ours, std::span<float> difference);

  /// The norms and the distance of the elements added so far. Not finite if any value was not
  /// finite.
  double their_norm() const;
  double our_norm() const;
  double distance() const;

  friend class Fields;
  static constexpr std::size_t field_count = 4;

 private:
  static constexpr std::size_t lanes = 16;
  using Sums = std::array<double, lanes>;

  std::size_t count_ = 0;
  Sums theirs_{};
  Sums ours_{};
  Sums difference_{};
};

/// The factor c of self-centred clipping (He, Karimireddy, Jaggi 2022): min(1, radius / distance).
/// A radius of 0 means no clipping. Both peers must use the smaller of their two radii, so that
/// they clip equally.
double clip_factor(double radius, double distance);

/// The smaller of two radii, where 0 means no limit.
float smaller_radius(float a, float b);

}  // namespace gv
