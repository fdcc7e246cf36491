// Deals out samples to all peers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/problems.hpp"
#include "peer/config/config.hpp"
#include "train/data/centres.hpp"
#include "train/data_set.hpp"

namespace gv {

/// For each peer, the indices of its samples.
using Shards = std::vector<std::vector<std::uint32_t>>;

Problem too_few_samples(const Config& config, std::size_t samples);

/// Deals samples out by the settings of a config, which must outlive it.
class Dealer {
 public:
  /// Reads the centres of clusters, if samples are dealt out by them.
  explicit Dealer(const Config& config);

  /// True if dealing needs the inputs of samples and not only their labels.
  bool needs_inputs() const { return config_.data.partition.kind == PartitionKind::clusters; }

  /// Deals out the samples. On failure returns no shards and records the reason in the problems.
  Shards deal(const DataSet& all);
  const Problems& problems() const { return problems_; }

 private:
  const Config& config_;
  Centres centres_;
  Problems problems_;
};

}  // namespace gv
