// Divides the samples of a data set among the peers of a run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/rng.hpp"
#include "train/data/centres.hpp"
#include "train/data_set.hpp"
#include "train/spec.hpp"

namespace gv {

/// Returns one list of sample indices for each peer. The function is pure, so every peer computes
/// the same lists and takes its own. Every sample goes to exactly one peer, except with `shared`
/// and `leased`, where every peer has all samples. There must be at least as many samples as peers;
/// then every peer gets at least one. With `dirichlet` and `by_label`, data without classes, or
/// with several labels in a sample, are divided as with `iid`. With `clusters`, peer k gets the
/// samples nearest to centre k. `centres` must then have one centre for each peer, and as many
/// features as each sample has. Other kinds ignore `centres`.
std::vector<std::vector<std::uint32_t>> partition(const PartitionSpec& spec, const DataSet& data,
                                                  std::size_t peers, Rng rng,
                                                  const Centres& centres = {});

}  // namespace gv
