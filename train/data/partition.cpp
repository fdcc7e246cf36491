// The kinds of partition: iid, Dirichlet (Hsu, Qi, Brown 2019), by label, shared, and by
// the nearest centre.
#include "train/data/partition.hpp"

#include <algorithm>
#include <numeric>

#include "base/check.hpp"

namespace gv {
namespace {

using Indices = std::vector<std::uint32_t>;

Indices all_indices(std::size_t count) {
  Indices all(count);
  std::iota(all.begin(), all.end(), 0u);
  return all;
}

/// Cuts `items` into `parts` consecutive pieces whose sizes differ by at most one.
std::vector<Indices> cut(const Indices& items, std::size_t parts) {
  std::vector<Indices> pieces;
  for (std::size_t k = 0; k < parts; ++k) {
    const auto begin = static_cast<std::ptrdiff_t>(k * items.size() / parts);
    const auto end = static_cast<std::ptrdiff_t>((k + 1) * items.size() / parts);
    pieces.emplace_back(items.begin() + begin, items.begin() + end);
  }
  return pieces;
}

std::vector<Indices> by_class(const DataSet& data, Rng& rng) {
  std::vector<Indices> classes(data.classes);
  Indices order = all_indices(data.size());
  rng.shuffle(std::span(order));
  for (const std::uint32_t index : order) {
    classes[static_cast<std::size_t>(data.labels[index])].push_back(index);
  }
  return classes;
}

std::vector<Indices> dirichlet(double alpha, const DataSet& data, std::size_t peers, Rng& rng) {
  std::vector<Indices> shards(peers);
  for (const Indices& members : by_class(data, rng)) {
    std::vector<double> shares(peers);
    for (double& share : shares) share = rng.gamma(alpha);
    const double total = std::accumulate(shares.begin(), shares.end(), 0.0);
    double sum = 0;
    std::size_t begin = 0;
    for (std::size_t k = 0; k < peers; ++k) {
      // With a tiny alpha, all draws can underflow to zero. Then the class is dealt out evenly.
      sum += total > 0 ? shares[k] / total : 1 / static_cast<double>(peers);
      const std::size_t end =
          k + 1 == peers
              ? members.size()
              : std::min(members.size(),
                         static_cast<std::size_t>(sum * static_cast<double>(members.size())));
      for (; begin < end; ++begin) shards[k].push_back(members[begin]);
    }
  }
  return shards;
}

std::vector<Indices> by_label(std::size_t labels_per_peer, const DataSet& data, std::size_t peers,
                              Rng& rng) {
  Indices sorted;
  for (const Indices& members : by_class(data, rng)) {
    sorted.insert(sorted.end(), members.begin(), members.end());
  }
  std::vector<Indices> pieces = cut(sorted, peers * labels_per_peer);
  rng.shuffle(std::span(pieces));
  std::vector<Indices> shards(peers);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    Indices& shard = shards[i % peers];
    shard.insert(shard.end(), pieces[i].begin(), pieces[i].end());
  }
  return shards;
}

std::vector<Indices> by_centre(const Centres& centres, const DataSet& data, std::size_t peers) {
  check(centres.size() == peers && centres.features == data.features(),
        "each peer has a centre that is like a sample");
  std::vector<Indices> shards(peers);
  std::vector<float> sample(data.features());
  for (std::uint32_t index = 0; index < data.size(); ++index) {
    data.read(index, sample);
    shards[nearest(centres, sample)].push_back(index);
  }
  return shards;
}

/// Moves one sample from the largest shard to each empty one, because a peer cannot train without
/// samples.
void feed_the_empty(std::vector<Indices>& shards) {
  for (Indices& shard : shards) {
    if (!shard.empty()) continue;
    Indices& richest = *std::ranges::max_element(shards, {}, &Indices::size);
    shard.push_back(richest.back());
    richest.pop_back();
  }
}

}  // namespace

std::vector<std::vector<std::uint32_t>> partition(const PartitionSpec& spec, const DataSet& data,
                                                  std::size_t peers, Rng rng,
                                                  const Centres& centres) {
  check(peers > 0 && data.size() >= peers, "there is at least one sample for each peer");
  const bool labelled = data.classes > 0 && data.predictions == 1;
  std::vector<Indices> shards;
  if (spec.kind == PartitionKind::shared || spec.kind == PartitionKind::leased) {
    shards.assign(peers, all_indices(data.size()));
  } else if (spec.kind == PartitionKind::dirichlet && labelled) {
    shards = dirichlet(spec.alpha, data, peers, rng);
  } else if (spec.kind == PartitionKind::by_label && labelled) {
    shards = by_label(spec.labels_per_peer, data, peers, rng);
  } else if (spec.kind == PartitionKind::clusters) {
    shards = by_centre(centres, data, peers);
  } else {
    Indices order = all_indices(data.size());
    rng.shuffle(std::span(order));
    shards = cut(order, peers);
  }
  feed_the_empty(shards);
  return shards;
}

}  // namespace gv
