// Sketches: 64 numbers of each model, which are enough to estimate the distance between two models.
#pragma once

#include <cstdint>
#include <span>

#include "consensus/message/message.hpp"

namespace gv {

/// Projects a model onto 64 random directions determined by the seed: each element is added, with a
/// random sign, to one of the values (count sketch: Charikar, Chen, Farach-Colton 2002). Linear, so
/// the sketch of a difference is the difference of the sketches. One pass over memory. A peer that
/// knows the seed can make a model that looks like another.
SketchValues sketch_of(std::span<const float> model, std::uint64_t seed);

/// Estimates the Euclidean norm of this sketch's model. The standard deviation is about 10 %.
double norm_of(const SketchValues& sketch);

/// Estimates the distance between two models with the same precision. Both sketches must have the
/// same seed.
double distance_between(const SketchValues& a, const SketchValues& b);

}  // namespace gv
