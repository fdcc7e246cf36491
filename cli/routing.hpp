// Machines of which each knows one cluster of the data, and a sample goes to that of the nearest.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/problems.hpp"
#include "peer/config/task.hpp"
#include "train/learner/score.hpp"

namespace gv {

/// True for what stands in place of a machine that is lost.
constexpr bool is_lost(std::string_view machine) { return machine == "-"; }

/// The newest checkpoint in a peer's folder, or the name itself if it names no folder.
std::string model_file_at(const std::string& name);

struct RoutedScore {
  Score score;
  Problems problems;
};

/// Sends each test sample to the machine of the nearest centre that has one (CA-SVM, You 2015), and
/// returns the score of all. `centres` is a file of a k-means, and `machines` has a file or a
/// peer's folder for each centre, in their order.
RoutedScore routed_score(const std::string& centres, const std::vector<std::string>& machines,
                         const TestSet& test);

}  // namespace gv
