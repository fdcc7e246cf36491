// Data sets are generated, divided and sampled correctly.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/rng.hpp"
#include "train/data/generated.hpp"
#include "train/data/partition.hpp"
#include "train/data/permutation.hpp"
#include "train/data/sampler.hpp"

namespace gv {
namespace {

/// `count` samples whose only feature is their index. Their labels cycle through the classes.
std::shared_ptr<DataSet> numbered(std::size_t count, std::size_t classes) {
  auto data = std::make_shared<DataSet>();
  data->shape = {1, 1, 1};
  data->classes = classes;
  if (classes == 0) data->target_width = 2;
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>(i);
    data->floats.push_back(value);
    if (classes > 0) data->labels.push_back(static_cast<std::int32_t>(i % classes));
    if (classes == 0) data->targets.insert(data->targets.end(), {-value, 10 * value});
  }
  return data;
}

std::vector<float> inputs(const Batch& batch) { return {batch.inputs.begin(), batch.inputs.end()}; }

/// The batch of a step in a run whose batches all have `size` samples.
Batch batch_of_step(Sampler& sampler, std::uint64_t step, std::size_t size) {
  return sampler.batch(sampler.after_batches(step, size), size);
}

/// The fraction of a peer's samples that have the peer's most frequent label, averaged over peers.
double skew(const std::vector<std::vector<std::uint32_t>>& shards, const DataSet& data) {
  double sum = 0;
  for (const auto& shard : shards) {
    std::vector<std::size_t> counts(data.classes);
    for (const std::uint32_t index : shard) ++counts[static_cast<std::size_t>(data.labels[index])];
    sum +=
        static_cast<double>(*std::ranges::max_element(counts)) / static_cast<double>(shard.size());
  }
  return sum / static_cast<double>(shards.size());
}

}  // namespace

TEST_CASE("bytes are read with offset and scale", "[unit]") {
  DataSet data;
  data.shape = {1, 1, 256};
  data.classes = 1;
  data.labels = {0, 0};
  data.bytes.assign(256, 9);
  for (int i = 0; i < 256; ++i) data.bytes.push_back(static_cast<std::uint8_t>(i));
  data.offset = 0.3f;
  data.scale = 2.5f;
  std::vector<float> out(256);
  data.read(1, out);
  for (int i = 0; i < 256; ++i) CHECK(std::abs(out[i] - (i / 255.0 - 0.3) * 2.5) < 1e-6);
}

TEST_CASE("a subset takes the samples named in their order", "[unit]") {
  const std::vector<std::uint32_t> indices = {4, 1, 4};
  const DataSet labelled = numbered(6, 4)->subset(indices);
  CHECK(labelled.size() == 3);
  CHECK(labelled.classes == 4);
  CHECK(labelled.floats == std::vector<float>{4, 1, 4});
  CHECK(labelled.labels == std::vector<std::int32_t>{0, 1, 0});
  const DataSet regression = numbered(6, 0)->subset(indices);
  CHECK(regression.size() == 3);
  CHECK(regression.targets == std::vector<float>{-4, 40, -1, 10, -4, 40});
  DataSet image;
  image.shape = {1, 1, 2};
  image.classes = 2;
  image.labels = {0, 1};
  image.bytes = {0, 51, 102, 255};
  image.offset = 0.5f;
  image.scale = 2;
  std::vector<float> whole(2), part(2);
  image.read(1, whole);
  image.subset(std::vector<std::uint32_t>{1}).read(0, part);
  CHECK(part == whole);
}

TEST_CASE("generated images have classes that differ in their patterns") {
  const GeneratedSpec spec{
      .samples = 8, .features = 2 * 32 * 32, .side = 32, .classes = 2, .noise = 0, .seed = 3};
  const DataSet data = generate_blobs(spec, 0);
  CHECK(data.shape == SampleShape{2, 32, 32});
  const std::span all(data.floats);
  const auto sample = [&](std::size_t i) { return all.subspan(i * 2048, 2048); };
  double squares = 0;
  double change = 0;
  double distance = 0;
  for (std::size_t i = 0; i < 2048; ++i) {
    squares += std::pow(sample(0)[i], 2);
    distance += std::pow(sample(0)[i] - sample(1)[i], 2);
    if (i % 32 > 0) change = std::max<double>(change, std::abs(sample(0)[i] - sample(0)[i - 1]));
  }
  CHECK(std::ranges::equal(sample(0), sample(2)));
  CHECK(squares / 2048 == Approx(1).margin(0.7));
  CHECK(distance / 2048 > 0.5);
  // An image is a sum of four waves of magnitude sqrt(1 / 2). The shortest wave is eight pixels
  // long.
  CHECK(change < 4 * std::sqrt(0.5) * 2 * 3.15 / 8);
}

TEST_CASE("generated samples depend on seed and stream alone", "[unit]") {
  const GeneratedSpec spec{.samples = 50, .features = 5, .classes = 4, .noise = 1, .seed = 3};
  const DataSet data = generate_blobs(spec, 0);
  CHECK(data.size() == 50);
  CHECK(data.shape == SampleShape{5, 1, 1});
  CHECK(data.classes == 4);
  CHECK(data.labels[6] == 2);
  CHECK(data.floats == generate_blobs(spec, 0).floats);
  CHECK(data.floats != generate_blobs(spec, 1).floats);
  GeneratedSpec other = spec;
  other.seed = 4;
  CHECK(data.floats != generate_blobs(other, 0).floats);
  other = spec;
  other.samples = 20;  // A shorter set is the beginning of a longer one.
  const DataSet shorter = generate_blobs(other, 0);
  CHECK(std::equal(shorter.floats.begin(), shorter.floats.end(), data.floats.begin()));
  // Without noise both streams are the centres themselves.
  other.noise = 0;
  CHECK(generate_blobs(other, 0).floats == generate_blobs(other, 1).floats);
}

TEST_CASE("nearest centres tell about nine in ten generated samples apart", "[unit]") {
  // Some seeds have closer centres than others, so the promise is about the mean over seeds.
  constexpr std::uint64_t seeds = 10;
  double mean = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    GeneratedSpec spec{.samples = 10, .features = 32, .classes = 10, .noise = 0, .seed = seed};
    const DataSet centres = generate_blobs(spec, 0);
    spec.samples = 2000;
    spec.noise = 1;
    const DataSet test = generate_blobs(spec, 1);
    std::vector<float> sample(32), centre(32);
    int right = 0;
    for (std::size_t n = 0; n < test.size(); ++n) {
      test.read(n, sample);
      std::vector<float> distances;
      for (std::size_t label = 0; label < 10; ++label) {
        centres.read(label, centre);
        float sum = 0;
        for (std::size_t i = 0; i < 32; ++i) sum += std::pow(sample[i] - centre[i], 2.0f);
        distances.push_back(sum);
      }
      right += std::ranges::min_element(distances) - distances.begin() == test.labels[n];
    }
    mean += right / 2000.0 / seeds;
  }
  CAPTURE(mean);
  CHECK(mean > 0.85);
  CHECK(mean < 0.95);
}

TEST_CASE("a partition deals every sample to exactly one peer", "[unit]") {
  const auto kind = GENERATE(PartitionKind::iid, PartitionKind::dirichlet, PartitionKind::by_label);
  const std::size_t peers = GENERATE(1, 3, 4, 7);
  const std::size_t classes = GENERATE(0, 5);
  const std::size_t samples = GENERATE(7, 103);
  const double alpha = GENERATE(1e-4, 0.5);
  CAPTURE(static_cast<int>(kind), peers, classes, samples, alpha);
  const auto data = numbered(samples, classes);
  const PartitionSpec spec{.kind = kind, .alpha = alpha, .labels_per_peer = 2};
  const auto shards = partition(spec, *data, peers, Rng(5));
  CHECK(shards == partition(spec, *data, peers, Rng(5)));
  REQUIRE(shards.size() == peers);
  std::vector<std::uint32_t> all;
  for (const auto& shard : shards) {
    CHECK_FALSE(shard.empty());
    all.insert(all.end(), shard.begin(), shard.end());
    if (kind == PartitionKind::iid || classes == 0) {
      CHECK(shard.size() >= samples / peers);
      CHECK(shard.size() <= (samples + peers - 1) / peers);
    }
  }
  std::ranges::sort(all);
  REQUIRE(all.size() == samples);
  for (std::size_t i = 0; i < samples; ++i) CHECK(all[i] == i);
}

TEST_CASE("a shared partition gives all samples to every peer", "[unit]") {
  const auto shards = partition({.kind = PartitionKind::shared}, *numbered(9, 3), 4, Rng(1));
  REQUIRE(shards.size() == 4);
  for (const auto& shard : shards) {
    CHECK(std::set(shard.begin(), shard.end()).size() == 9);
    CHECK(shard.size() == 9);
  }
}

TEST_CASE("another seed deals samples out differently", "[unit]") {
  const auto kind = GENERATE(PartitionKind::iid, PartitionKind::dirichlet, PartitionKind::by_label);
  const auto data = numbered(100, 5);
  CHECK(partition({.kind = kind}, *data, 4, Rng(1)) != partition({.kind = kind}, *data, 4, Rng(2)));
}

TEST_CASE("a small alpha and few labels make unlike shards", "[unit]") {
  const auto data = numbered(5000, 10);
  const auto skew_of = [&](const PartitionSpec& spec) {
    return skew(partition(spec, *data, 8, Rng(2)), *data);
  };
  // With ten equally frequent labels, 0.1 means no skew at all, and 1 a single label for each peer.
  CHECK(skew_of({.kind = PartitionKind::iid}) < 0.2);
  CHECK(skew_of({.kind = PartitionKind::dirichlet, .alpha = 1000}) < 0.2);
  CHECK(skew_of({.kind = PartitionKind::dirichlet, .alpha = 0.05}) > 0.4);
  CHECK(skew_of({.kind = PartitionKind::by_label, .labels_per_peer = 2}) > 0.4);
}

TEST_CASE("pieces that cross from label to label give a peer more labels than pieces", "[unit]") {
  // As docs/configuration.md says: 12 pieces of 10 equally frequent labels.
  const auto data = numbered(1200, 10);
  std::set<std::size_t> counts;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const PartitionSpec spec{.kind = PartitionKind::by_label, .labels_per_peer = 3};
    for (const auto& shard : partition(spec, *data, 4, Rng(seed))) {
      std::set<std::int32_t> labels;
      for (const std::uint32_t index : shard) labels.insert(data->labels[index]);
      counts.insert(labels.size());
    }
  }
  CHECK(*counts.begin() >= 3);
  CHECK(*counts.rbegin() > 3);
  CHECK(*counts.rbegin() <= 6);
}

TEST_CASE("a piece of labels holds few of them", "[unit]") {
  // There are 20 pieces of 50 samples from 10 labels with 100 samples each, so every piece has a
  // single label.
  const auto data = numbered(1000, 10);
  for (const auto& shard : partition({.kind = PartitionKind::by_label}, *data, 10, Rng(3))) {
    std::set<std::int32_t> labels;
    for (const std::uint32_t index : shard) labels.insert(data->labels[index]);
    CHECK(labels.size() <= 2);
    CHECK(shard.size() == 100);
  }
}

TEST_CASE("a batch depends on its position and not on what was asked before", "[unit]") {
  const auto data = numbered(23, 4);
  Sampler forward(data, 1, 0);
  Sampler jumping(data, 1, 0);
  std::vector<std::vector<float>> seen;
  for (std::uint64_t step = 0; step < 20; ++step) {
    const Batch batch = batch_of_step(forward, step, 5);
    CHECK(batch.size == 5);
    CHECK(batch.targets.empty());
    seen.push_back(inputs(batch));
    for (std::size_t i = 0; i < 5; ++i) {
      CHECK(batch.labels[i] == static_cast<std::int32_t>(batch.inputs[i]) % 4);
    }
  }
  for (const std::uint64_t step : {19u, 3u, 3u, 0u, 7u, 4u, 3u}) {
    CHECK(inputs(batch_of_step(jumping, step, 5)) == seen[step]);
  }
}

TEST_CASE("prefetching changes no batch", "[unit]") {
  const auto data = numbered(23, 0);
  Sampler plain(data, 1, 0);
  Sampler ahead(data, 1, 0);
  for (std::uint64_t step = 0; step < 20; ++step) {
    const Batch got = batch_of_step(ahead, step, 5);
    // The views of a batch stay valid while the next batch or another one is prefetched.
    ahead.prefetch(ahead.after_batches(step + (step % 3 == 0 ? 7 : 1), 5), step % 4 == 0 ? 4 : 5);
    const Batch expected = batch_of_step(plain, step, 5);
    CHECK(inputs(got) == inputs(expected));
    CHECK(std::ranges::equal(got.targets, expected.targets));
    REQUIRE(got.targets.size() == 10);
    CHECK(got.targets[1] == 10 * got.inputs[0]);
  }
}

TEST_CASE("a batch outlives one more call even when it was found ready", "[unit]") {
  Sampler sampler(numbered(40, 2), 1, 0);
  sampler.batch(0, 4);
  sampler.prefetch(4, 4);
  const Batch again = sampler.batch(0, 4);
  const std::vector<float> before = inputs(again);
  sampler.prefetch(8, 4);
  CHECK(inputs(again) == before);
}

TEST_CASE("an epoch shows a sample at most once and leaves out another tail each time", "[unit]") {
  Sampler sampler(numbered(23, 4), 1, 0);
  std::set<std::set<float>> epochs;
  for (std::uint64_t epoch = 0; epoch < 10; ++epoch) {
    std::set<float> shown;
    for (std::uint64_t i = 0; i < 4; ++i) {
      for (const float sample : batch_of_step(sampler, 4 * epoch + i, 5).inputs) {
        CHECK(shown.insert(sample).second);
      }
    }
    CHECK(shown.size() == 20);
    epochs.insert(shown);
  }
  CHECK(epochs.size() > 5);  // Each epoch leaves out 3 of 23 samples, rarely the same 3.
}

TEST_CASE("peers seeds and epochs have orders of their own", "[unit]") {
  const auto data = numbered(40, 4);
  const auto first = [&](std::uint64_t seed, std::uint64_t peer, std::uint64_t epoch) {
    return inputs(Sampler(data, seed, peer).batch(40 * epoch, 40));
  };
  CHECK(first(1, 0, 0) == first(1, 0, 0));
  CHECK(first(1, 0, 0) != first(1, 1, 0));
  CHECK(first(1, 0, 0) != first(2, 0, 0));
  CHECK(first(1, 0, 0) != first(1, 0, 1));
}

TEST_CASE("a shard smaller than a batch repeats its samples", "[unit]") {
  Sampler sampler(numbered(3, 3), 1, 0);
  CHECK(sampler.after_batches(5, 8) == 15);
  const std::vector<float> batch = inputs(sampler.batch(15, 8));
  REQUIRE(batch.size() == 8);
  for (std::size_t i = 3; i < 8; ++i) CHECK(batch[i] == batch[i - 3]);
  CHECK(std::set(batch.begin(), batch.end()).size() == 3);
}

TEST_CASE("a keyed permutation has every number once, in an order of its key", "[unit]") {
  for (const std::uint64_t size : {1, 2, 3, 4, 5, 16, 17, 1000, 4097}) {
    const KeyedPermutation order(size, 7);
    std::set<std::uint64_t> seen;
    for (std::uint64_t place = 0; place < size; ++place) seen.insert(order.at(place));
    CHECK(seen.size() == size);
    CHECK(*seen.rbegin() == size - 1);
  }
  // Over random keys, a number is equally likely at each of 20 places. Chi-squared with 19 degrees
  // of freedom exceeds 43.8 with a probability of 0.001. The keys are fixed, so the result is, too.
  std::array<int, 20> counts{};
  for (std::uint64_t key = 0; key < 2000; ++key) ++counts[KeyedPermutation(20, key).at(3)];
  double chi_squared = 0;
  for (const int count : counts) chi_squared += (count - 100.0) * (count - 100.0) / 100;
  CHECK(chi_squared < 43.8);
}

TEST_CASE("leased data have one order for all peers, and nothing is left out", "[unit]") {
  const auto data = numbered(23, 4);
  Sampler one(data, 1, std::nullopt);
  Sampler other(data, 1, std::nullopt);
  std::vector<float> passes;
  for (std::uint64_t position = 0; position < 46; position = one.after(position, 5)) {
    const std::vector<float> batch = inputs(one.batch(position, 5));
    passes.insert(passes.end(), batch.begin(), batch.end());
  }
  // Chunks may be read in any order. This batch reaches into the next pass.
  const std::vector<float> across = inputs(other.batch(20, 5));
  CHECK(std::ranges::equal(across, std::span(passes).subspan(20, 5)));
  CHECK(inputs(other.batch(0, 5)) == std::vector(passes.begin(), passes.begin() + 5));
  for (const std::size_t pass : {0, 23}) {
    const std::set<float> shown(passes.begin() + static_cast<std::ptrdiff_t>(pass),
                                passes.begin() + static_cast<std::ptrdiff_t>(pass + 23));
    CHECK(shown.size() == 23);
  }
  CHECK_FALSE(std::equal(passes.begin(), passes.begin() + 23, passes.begin() + 23));
  CHECK(inputs(Sampler(data, 2, std::nullopt).batch(0, 5)) != inputs(one.batch(0, 5)));
}

TEST_CASE("batches of any sizes follow each other through an epoch's order", "[unit]") {
  constexpr std::size_t size = 23;
  Sampler sampler(numbered(size, 4), 1, 0);
  Rng rng(6);
  std::uint64_t position = 0;
  for (int i = 0; i < 200; ++i) {
    const std::size_t wanted = 1 + rng.below(10);
    const std::uint64_t next = sampler.after(position, wanted);
    const std::uint64_t begin = next - wanted;
    // A batch begins where the last one ended or, if the rest of the epoch is too short for it,
    // with the next epoch.
    if (position / size == begin / size) {
      CHECK(begin == position);
    } else {
      CHECK(position % size + wanted > size);
      CHECK(begin == (position / size + 1) * size);
    }
    const std::vector<float> order = inputs(sampler.batch(begin / size * size, size));
    const std::vector<float> batch = inputs(sampler.batch(position, wanted));
    REQUIRE(batch.size() == wanted);
    CHECK(std::equal(batch.begin(), batch.end(),
                     order.begin() + static_cast<std::ptrdiff_t>(begin % size)));
    position = next;
  }
}

TEST_CASE("the position after many batches of a size is where they lead one by one", "[unit]") {
  const Sampler sampler(numbered(23, 4), 1, 0);
  for (const std::size_t size : {1u, 5u, 12u, 22u, 23u, 24u, 60u}) {
    std::uint64_t position = 0;
    for (std::uint64_t count = 0; count < 60; ++count) {
      // Positions at the end of an epoch and at the start of the next have the same successor.
      CHECK(sampler.after(position, size) ==
            sampler.after(sampler.after_batches(count, size), size));
      position = sampler.after(position, size);
    }
  }
  CHECK(sampler.after(7, 0) == 7);
}

}  // namespace gv
