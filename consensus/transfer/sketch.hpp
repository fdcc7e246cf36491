// Sketches: 64 numbers of each model, which are enough to estimate the distance between two models.
#pragma once

#include <cstdint>
#include <span>

#include "consensus/message/message.hpp"

namespace gv {

/// Projects a model onto 64 random directions determined by the seed: each element is added, with a
/// random sign, to one of the values (count sketch: Charikar, Chen, Farach-Colton 2002). The
/// projection is linear, so the sketch of a difference is the difference of the sketches. Takes one
/// pass over the model. A peer that knows the seed can make up a model with the same sketch as
/// another model.
SketchValues sketch_of(std::span<const float> model, std::uint64_t seed);

/// Estimates the Euclidean norm of the model that was sketched. The standard deviation of the error
/// is about 10 %.
double norm_of(const SketchValues& sketch);

/// Estimates the Euclidean distance between two models from their sketches, as precisely as
/// norm_of(). Both sketches must be made with the same seed.
double distance_between(const SketchValues& a, const SketchValues& b);

}  // namespace gv
