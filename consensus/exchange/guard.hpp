// What a peer believes of another's model: finite, not absurdly large, and pulled at only so hard.
#pragma once

#include <span>

namespace gv {

/// Sum of squares in double, over 16 interleaved partial sums added in a fixed order: both ends of
/// an exchange get the same bits from values that differ only in sign. Not finite if any value is
/// not.
double sum_of_squares(std::span<const float> values);

/// The factor c of symmetric self-centred clipping (He, Karimireddy, Jaggi 2022, made symmetric by
/// taking the smaller radius of the two): min(1, radius / distance). A radius of 0 clips nothing.
double clip_factor(double radius, double distance);

/// The smaller radius of two, where 0 stands for none.
float smaller_radius(float a, float b);

}  // namespace gv
