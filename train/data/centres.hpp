// Cluster centres, by which samples are assigned to peers and to kernel machines.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace gv {

/// Centres found by k-means. `values` has the shape (size(), features).
struct Centres {
  std::size_t features = 0;
  std::vector<float> values;

  std::size_t size() const { return features == 0 ? 0 : values.size() / features; }
};

/// Returns the index of the centre nearest to `x` among those that `usable` allows; on ties the
/// lowest index. An empty `usable` allows all centres. At least one must be allowed.
std::size_t nearest(const Centres& centres, std::span<const float> x,
                    const std::vector<bool>& usable = {});

/// `problem` is empty, or says why there are no centres.
struct LoadedCentres {
  Centres centres;
  std::string problem;
};

/// Reads the centres from a model file whose first layer is `clusters`: each centre is a sum
/// divided by a count. Refuses the file if a centre has no samples, because the peer of that centre
/// would have none either. Never throws.
LoadedCentres read_centres(const std::filesystem::path& file);

}  // namespace gv
