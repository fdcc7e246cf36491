// Divides samples among all peers.
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

/// True if each peer trains on a shard of the data. Otherwise each peer trains on all data that it
/// reads.
bool has_shards(const Config& config);

Problem too_few_samples(const Config& config, std::size_t samples);

/// Deals samples out according to a config, which must outlive this object.
class Dealer {
 public:
  /// Reads the centres, if samples are dealt out by clusters.
  explicit Dealer(const Config& config);

  /// True if dealing needs the samples' inputs, not only their labels.
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
