// Machines that each know one cluster of the data. A sample goes to the machine of the nearest
// cluster.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/problems.hpp"
#include "peer/config/task.hpp"
#include "train/learner/score.hpp"

namespace gv {

/// True for the placeholder of a lost machine.
constexpr bool is_lost(std::string_view machine) { return machine == "-"; }

/// The newest checkpoint in a peer's folder that can be read, with a note about newer ones; the
/// newest if none can. The name itself if it is not such a folder.
std::string model_file_at(const std::string& name);

struct RoutedScore {
  Score score;
  Problems problems;
};

/// Sends each test sample to the machine of the nearest centre that has one (CA-SVM, You 2015), and
/// returns the score over all samples. `centres` is a file of a k-means, and `machines` has a file
/// or a peer's folder for each centre, in order.
RoutedScore routed_score(const std::string& centres, const std::vector<std::string>& machines,
                         const TestSet& test);

}  // namespace gv
