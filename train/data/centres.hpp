// The centres of clusters, by which samples are dealt out and machines are chosen.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace gv {

/// Centres that k-means has found, (size(), features).
struct Centres {
  std::size_t features = 0;
  std::vector<float> values;

  std::size_t size() const { return features == 0 ? 0 : values.size() / features; }
};

/// The number of the centre nearest to `x` among those with `usable`; on ties the first. An empty
/// `usable` allows all. At least one must be allowed.
std::size_t nearest(const Centres& centres, std::span<const float> x,
                    const std::vector<bool>& usable = {});

/// `problem` is empty, or says why there are no centres.
struct LoadedCentres {
  Centres centres;
  std::string problem;
};

/// Reads the centres from a model file whose first layer is `clusters`: sums over counts. The file
/// is refused if a centre has no samples, since a peer would have none either. Never throws.
LoadedCentres read_centres(const std::filesystem::path& file);

}  // namespace gv
