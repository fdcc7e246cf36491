// Checks the number of samples, reads the centres, and deals samples out.
#include "peer/config/shards.hpp"

#include <fmt/format.h>

#include <utility>

#include "train/data/partition.hpp"

namespace gv {

bool has_shards(const Config& config) {
  const PartitionKind kind = config.data.partition.kind;
  return kind != PartitionKind::shared && kind != PartitionKind::leased;
}

Problem too_few_samples(const Config& config, std::size_t samples) {
  // Leased data are not dealt out, but all peers train at the same time, so each needs at least one
  // sample.
  const bool is_leased = config.data.partition.kind == PartitionKind::leased;
  return {"run.peers",
          is_leased ? fmt::format("{} samples are too few for {} peers to train on one each",
                                  samples, config.run.peers)
                    : fmt::format("{} samples cannot be dealt out to {} peers", samples,
                                  config.run.peers),
          "use fewer peers or more data"};
}

Dealer::Dealer(const Config& config) : config_(config) {
  if (!needs_inputs()) return;
  const std::string& file = config.data.centres;
  LoadedCentres loaded = read_centres(file);
  centres_ = std::move(loaded.centres);
  if (!loaded.problem.empty()) {
    problems_.push_back({"data.centres", file + ": " + loaded.problem,
                         "name the mean.safetensors of a run whose only layer is clusters"});
  } else if (centres_.size() != config.run.peers) {
    problems_.push_back(
        {"data.centres", fmt::format("{} centres for {} peers", centres_.size(), config.run.peers),
         fmt::format("write peers = {} below [run], or units = {} in the config of the clusters",
                     centres_.size(), config.run.peers)});
  }
}

Shards Dealer::deal(const DataSet& all) {
  if (problems_.empty() && all.size() < config_.run.peers) {
    problems_.push_back(too_few_samples(config_, all.size()));
  } else if (problems_.empty() && needs_inputs() && centres_.features != all.features()) {
    problems_.push_back(
        {"data.centres",
         fmt::format("a centre has {} numbers, and a sample {}", centres_.features, all.features()),
         "find the centres in the same data"});
  }
  if (!problems_.empty()) return {};
  return partition(config_.data.partition, all, config_.run.peers,
                   Rng(config_.run.seed).fork("partition"), centres_);
}

}  // namespace gv
