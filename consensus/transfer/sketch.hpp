// Sketches: from 64 numbers for each of two models follows how far the models are from each other.
#pragma once

#include <cstdint>
#include <span>

#include "consensus/message/message.hpp"

namespace gv {

/// Projects a model to 64 random directions, which follow from the seed: each element is added,
/// with a random sign, to one of the values (count sketch: Charikar, Chen, Farach-Colton 2002).
/// Linear, so the sketch of a difference is the difference of the sketches. One pass over memory. A
/// peer that knows the seed can make a model which looks like another.
SketchValues sketch_of(std::span<const float> model, std::uint64_t seed);

/// The Euclidean norm of the model of this sketch: right within some 10 % (one standard deviation).
double norm_of(const SketchValues& sketch);

/// The distance between two models, in the same way. Both sketches must be of the same seed.
double distance_between(const SketchValues& a, const SketchValues& b);

}  // namespace gv
