// Settings with which generated data could not be kept in any usual memory.
#pragma once

#include "base/problems.hpp"
#include "peer/config/config.hpp"

namespace gv {

/// Generated data of more than 64 GiB, samples and what they are drawn around together. Places
/// are the setting that takes the most: "data.generated.samples".
Problems generated_problems(const Config& config);

}  // namespace gv
