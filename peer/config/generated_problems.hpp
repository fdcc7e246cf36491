// Settings whose generated data would not fit into the memory of any usual machine.
#pragma once

#include "base/problems.hpp"
#include "peer/config/config.hpp"

namespace gv {

/// Reports generated data of more than 64 GiB. The size includes the centres and weights from which
/// the data are drawn. The place of the problem is the setting that takes the most memory, such as
/// "data.generated.samples".
Problems generated_problems(const Config& config);

}  // namespace gv
