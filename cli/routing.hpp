// Machines that were each trained on one cluster of the data. A sample goes to the machine of the
// nearest cluster.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/problems.hpp"
#include "peer/config/task.hpp"
#include "train/learner/score.hpp"

namespace gv {

/// True for the placeholder of a machine that was lost.
constexpr bool is_lost(std::string_view machine) { return machine == "-"; }

/// Returns the newest readable checkpoint in the folder of a peer, and prints a note to stderr
/// about each newer, unreadable one. If none is readable, returns the newest. If `name` is not such
/// a folder, returns `name`.
std::string model_file_at(const std::string& name);

struct RoutedScore {
  Score score;
  Problems problems;
};

/// Sends each test sample to the nearest centre's machine, leaving out the centres of lost machines
/// (CA-SVM, You 2015). Returns the score over all samples. `centres` is a file with k-means
/// centres. `machines` names a file or a peer's folder for each centre, in order.
RoutedScore routed_score(const std::string& centres, const std::vector<std::string>& machines,
                         const TestSet& test);

}  // namespace gv
