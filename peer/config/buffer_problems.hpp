// Settings that do not suit a model with buffers, such as the statistics of a batch norm.
#pragma once

#include "base/problems.hpp"
#include "peer/config/config.hpp"

namespace gv {

/// Says which settings would treat a buffer as a gradient, which it is not: they measure it, send
/// only a part of it, or add to it with a momentum or the changes of several peers at once, so that
/// a variance may become negative.
Problems buffer_problems(const Config& config);

}  // namespace gv
