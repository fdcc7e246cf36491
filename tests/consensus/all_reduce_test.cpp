// All-reduces over a network with arbitrary delays: all peers get the same bits and the exact sum.
#include "consensus/allreduce/all_reduce.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "base/magnitude.hpp"
#include "base/rng.hpp"

namespace gv {
namespace {

using Vector = Floats;

PeerId peer(std::size_t rank) { return PeerId{100 + rank}; }

/// All peers of one collective. Links have arbitrary delays, but keep the order of blocks.
class Cluster {
 public:
  Cluster(const AllReduceShape& shape, std::size_t ranks, std::size_t elements, Rng rng)
      : rng_(rng), options_(shape) {
    for (std::size_t rank = 0; rank < ranks; ++rank) options_.order.push_back(peer(rank));
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      inputs.push_back(std::make_shared<Vector>(elements));
      for (float& value : *inputs.back()) value = static_cast<float>(rng_.normal());
      untouched.push_back(*inputs.back());
    }
  }

  void begin(const std::vector<float>& weights, std::uint64_t operation = 7) {
    for (std::size_t rank = 0; rank < inputs.size(); ++rank) {
      parts.emplace_back(options_, peer(rank), operation, weights[rank], inputs[rank],
                         std::make_shared<Vector>(inputs[rank]->size(), -1e30f));
      for (std::size_t bucket = 0; bucket < options_.buckets.size(); ++bucket) {
        waiting_.emplace_back(rank, bucket);
      }
    }
  }

  /// Runs events in random order until there are none left.
  void run() {
    while (!waiting_.empty() || !links_.empty()) {
      const std::size_t choices = waiting_.size() + links_.size();
      std::size_t choice = rng_.below(choices);
      if (choice < waiting_.size()) {
        const auto [rank, bucket] = waiting_[choice];
        waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(choice));
        Effects out;
        parts[rank].ready(bucket, out);
        post(rank, out);
        continue;
      }
      auto link = std::next(links_.begin(), static_cast<std::ptrdiff_t>(choice - waiting_.size()));
      const auto [from, to] = link->first;
      if (rng_.below(2) == 0) {
        come_in_part(link->second, from, to);
        continue;
      }
      if (link->second.place.empty()) come_in_part(link->second, from, to);
      const std::span<std::byte> place = std::exchange(link->second.place, {});
      Transfer transfer = std::move(link->second.transfers.front());
      link->second.transfers.pop_front();
      if (link->second.transfers.empty()) links_.erase(link);
      Effects out;
      Block block{transfer.id, 0, transfer.payload.bytes};
      if (!place.empty()) {
        std::ranges::copy(block.bytes, place.begin());
        block.bytes = place;
        ++placed;
      }
      REQUIRE((parts[to].receive(peer(from), block, out) || parts[to].unsound_from()));
      REQUIRE_FALSE(parts[to].receive(peer(from), block, out));  // A repeat changes nothing.
      post(to, out);
    }
  }

  std::vector<std::shared_ptr<Vector>> inputs;
  std::vector<Vector> untouched;
  std::deque<AllReduce> parts;
  std::size_t placed = 0;  ///< Number of blocks that were read directly into their final place.
  /// A rank and a factor: the values of each block from that rank are scaled by the factor.
  std::optional<std::pair<std::size_t, float>> longer;
  /// A rank and a value: one element of each block from that rank is set to the value.
  std::optional<std::pair<std::size_t, float>> poison;

 private:
  struct Link {
    std::deque<Transfer> transfers;
    std::span<std::byte> place;  ///< Memory for the first transfer, once its first half is in.
  };

  /// Delivers the first half of the link's next block, if its receiver has a place for it.
  void come_in_part(Link& link, std::size_t from, std::size_t to) {
    const Transfer& transfer = link.transfers.front();
    const auto bytes = transfer.payload.bytes;
    const auto place = parts[to].place(peer(from), transfer.id, 0, bytes.size());
    if (!link.place.empty()) {
      REQUIRE(place.data() == link.place.data());
      REQUIRE(place.size() == link.place.size());
    }
    link.place = place;
    if (place.empty()) return;
    REQUIRE(place.size() == bytes.size());
    std::ranges::copy(bytes.first(bytes.size() / 2), place.begin());
  }

  void post(std::size_t from, Effects& out) {
    for (Transfer& transfer : out.transfers) {
      if (poison && poison->first == from) {
        const auto bytes = transfer.payload.bytes;
        const auto changed = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
        const std::size_t at = rng_.below(bytes.size() / sizeof(float)) * sizeof(float);
        std::memcpy(changed->data() + at, &poison->second, sizeof(float));
        transfer.payload = {changed, *changed};
      }
      if (longer && longer->first == from) {
        const auto bytes = transfer.payload.bytes;
        const auto changed = std::make_shared<Vector>(bytes.size() / sizeof(float));
        std::memcpy(changed->data(), bytes.data(), bytes.size());
        for (float& value : *changed) value *= longer->second;
        transfer.payload = {changed, std::as_bytes(std::span<const float>(*changed))};
      }
      const auto to = static_cast<std::size_t>(transfer.to) - 100;
      links_[{from, to}].transfers.push_back(std::move(transfer));
    }
  }

  Rng rng_;
  AllReduceShape options_;
  std::vector<std::pair<std::size_t, std::size_t>> waiting_;
  std::map<std::pair<std::size_t, std::size_t>, Link> links_;
};

/// Splits `elements` into `count` buckets. The first bucket has the last elements.
std::vector<Range> buckets_of(std::size_t elements, std::size_t count) {
  std::vector<Range> buckets;
  for (std::size_t i = count; i-- > 0;) {
    const Range range{elements * i / count, elements * (i + 1) / count};
    if (!range.empty()) buckets.push_back(range);
  }
  return buckets;
}

/// One part for each rank. The parts differ in size, and one is empty.
std::vector<Range> unlike_parts(std::size_t ranks) {
  std::vector<Range> parts;
  std::size_t end = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::size_t begin = std::exchange(end, end + (rank == 2 ? 0 : 20 + 7 * rank));
    parts.push_back({begin, end});
  }
  return parts;
}

}  // namespace

TEST_CASE("everybody gets the weighted sum in the same bits however blocks are delayed",
          "[allreduce][all_reduce]") {
  const auto algorithm = GENERATE(from_range(reduce_algorithms()));
  const std::size_t ranks = GENERATE(1, 2, 3, 4, 5, 6, 7, 8, 9, 16);
  const std::size_t elements = GENERATE(1, 2, 7, 16, 100, 1023);
  CAPTURE(to_string(algorithm), ranks, elements);
  // A peer with weight 1 sends its inputs unchanged.
  const float least = GENERATE(1.0f, 0.25f);
  const float scale = 0.3f;
  const std::size_t unweighted = elements / 10;
  std::vector<float> weights;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    weights.push_back(rank % 3 == 0 ? 1.0f : std::max(least, 1.0f / static_cast<float>(rank)));
  }
  std::vector<Vector> results;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    Cluster cluster({.generation = 99,
                     .algorithm = algorithm,
                     .buckets = buckets_of(elements, 1 + elements % 4),
                     .segment = 1 + elements % 17,
                     .scale = scale,
                     .unweighted_from = elements - unweighted},
                    ranks, elements, Rng(5));
    cluster.begin(weights);
    cluster.run();
    CHECK((cluster.placed > 0 || ranks == 1));
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      REQUIRE(cluster.parts[rank].done());
      CHECK(*cluster.inputs[rank] == cluster.untouched[rank]);
      results.push_back(*cluster.parts[rank].result());
      REQUIRE(results.back() == results.front());
    }
    for (std::size_t i = 0; i < elements; ++i) {
      double sum = 0;
      double size = 0;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        const bool plain = i >= elements - unweighted;
        const double factor = plain ? 1 : static_cast<double>(weights[rank]) * scale;
        const double term = factor * cluster.untouched[rank][i];
        sum += term;
        size += std::abs(term);
      }
      // Each rank adds two roundings, one of a product and one of an addition. The scale adds one
      // more.
      CHECK(results.back()[i] == Approx(sum).margin(2e-7 * size * static_cast<double>(ranks + 1)));
    }
  }
}

TEST_CASE("what sums without rounding is the serial sum bit for bit", "[allreduce][all_reduce]") {
  const auto algorithm = GENERATE(from_range(reduce_algorithms()));
  const std::size_t ranks = GENERATE(range(std::size_t{1}, std::size_t{10}));
  const float weight = GENERATE(1.0f, 0.5f);
  constexpr std::size_t elements = 200;
  CAPTURE(to_string(algorithm), ranks, weight);
  Cluster cluster(
      {.generation = 99, .algorithm = algorithm, .buckets = buckets_of(elements, 3), .segment = 16},
      ranks, elements, Rng(ranks));
  // The inputs are multiples of 2^-10 with magnitudes of at most 8. A sum of nine inputs needs 17
  // of the 24 bits, so nothing is rounded.
  Rng rng(7);
  std::vector<float> expected(elements);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (std::size_t i = 0; i < elements; ++i) {
      const float value = static_cast<float>(rng.below(1 << 14)) / 1024 - 8;
      (*cluster.inputs[rank])[i] = value;
      expected[i] += weight * value;
    }
  }
  cluster.begin(std::vector<float>(ranks, weight));
  cluster.run();
  for (const AllReduce& part : cluster.parts) {
    REQUIRE(part.done());
    CHECK(std::ranges::equal(*part.result(), expected));
  }
}

TEST_CASE("parts are gathered beside what is summed, as their ranks have them",
          "[allreduce][all_reduce]") {
  const auto algorithm = GENERATE(from_range(reduce_algorithms()));
  const std::size_t ranks = GENERATE(1, 2, 3, 5, 8);
  CAPTURE(to_string(algorithm), ranks);
  // After the parts come values that are summed.
  const std::vector<Range> parts = unlike_parts(ranks);
  const std::size_t gathered = parts.back().end;
  const std::size_t elements = gathered + 60;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Cluster cluster(
        {.generation = 99,
         .algorithm = algorithm,
         .buckets = {{gathered + 30, elements}, {gathered, gathered + 30}, {0, gathered}},
         .parts = parts,
         .segment = 9,
         .scale = 0.5f},
        ranks, elements, Rng(seed));
    cluster.begin(std::vector<float>(ranks, 0.25f));
    cluster.run();
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const AllReduce& part = cluster.parts[rank];
      REQUIRE(part.done());
      CHECK(*cluster.inputs[rank] == cluster.untouched[rank]);
      const Vector& result = *part.result();
      REQUIRE(result == *cluster.parts[0].result());
      for (std::size_t owner = 0; owner < ranks; ++owner) {
        for (std::size_t i = parts[owner].begin; i < parts[owner].end; ++i) {
          REQUIRE(result[i] == cluster.untouched[owner][i]);
        }
      }
      for (std::size_t i = gathered; i < elements; ++i) {
        double sum = 0;
        for (const Vector& input : cluster.untouched) sum += 0.125 * input[i];
        REQUIRE(result[i] == Approx(sum).margin(1e-5));
      }
      // Each rank passes on every part except that of the next rank in the ring, plus its share of
      // the sums.
      const std::size_t next = (rank + 1) % ranks;
      if (ranks > 1 && algorithm == ReduceAlgorithm::ring && 30 % ranks == 0) {
        CHECK(part.bytes_sent() ==
              sizeof(float) * (gathered - parts[next].size() + 2 * 60 * (ranks - 1) / ranks));
      }
    }
  }
}

TEST_CASE("parts are dealt out by the first rank, and each rank gets its own one only",
          "[allreduce][all_reduce]") {
  const std::size_t ranks = GENERATE(1, 2, 3, 5, 8);
  CAPTURE(ranks);
  const std::vector<Range> parts = unlike_parts(ranks);
  const std::size_t elements = parts.back().end;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Cluster cluster({.generation = 99,
                     .buckets = {{0, elements}},
                     .parts = parts,
                     .is_dealt = true,
                     .segment = 9},
                    ranks, elements, Rng(seed));
    cluster.begin(std::vector<float>(ranks, 1.0f));
    cluster.run();
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const AllReduce& part = cluster.parts[rank];
      REQUIRE(part.done());
      CHECK(*cluster.inputs[rank] == cluster.untouched[rank]);
      for (std::size_t i = parts[rank].begin; i < parts[rank].end; ++i) {
        REQUIRE((*part.result())[i] == cluster.untouched[0][i]);
      }
      CHECK(part.bytes_sent() == (rank > 0 ? 0 : sizeof(float) * (elements - parts[0].size())));
    }
  }
}

TEST_CASE("what no sound peer sends stops at the first sound peer, which names its sender",
          "[allreduce][all_reduce]") {
  const auto algorithm = GENERATE(from_range(reduce_algorithms()));
  const std::size_t ranks = GENERATE(2, 3, 4, 7, 8);
  const float value = GENERATE(std::numeric_limits<float>::quiet_NaN(),
                               -std::numeric_limits<float>::infinity(), -0x1p100F);
  // Vectors of the second size do not fit into a processor's cache.
  const std::size_t elements = GENERATE(100, 1100000);
  if (elements > 100 && ranks != 3) return;
  CAPTURE(to_string(algorithm), ranks, value, elements);
  for (std::size_t hostile = 0; hostile < ranks; ++hostile) {
    Cluster cluster({.generation = 99,
                     .algorithm = algorithm,
                     .buckets = buckets_of(elements, 2),
                     .segment = 1 + elements / 13,
                     .largest = largest_gradient},
                    ranks, elements, Rng(hostile));
    cluster.poison = {hostile, value};
    cluster.begin(std::vector<float>(ranks, 1.0f));
    cluster.run();
    std::size_t witnesses = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      if (rank == hostile) continue;
      const AllReduce& part = cluster.parts[rank];
      if (part.unsound_from()) {
        CHECK(*part.unsound_from() == peer(hostile));
        CHECK_FALSE(part.done());
        ++witnesses;
      } else if (part.done()) {
        CHECK(largest_magnitude(*part.result()) <= 4 * largest_gradient);
      }
    }
    CHECK(witnesses > 0);
  }
}

TEST_CASE("however large the values of a hostile peer, no sound one is found unsound",
          "[allreduce][all_reduce]") {
  const auto algorithm = GENERATE(from_range(reduce_algorithms()));
  const std::size_t ranks = GENERATE(2, 3, 4, 7, 8);
  const auto n = static_cast<float>(ranks);
  // With the third factor, the sum is just small enough for the next peer to accept it.
  const float times = GENERATE_COPY(1.0F, 3.5F, 4 * n - 1, 5 * n);
  CAPTURE(to_string(algorithm), ranks, times);
  constexpr std::size_t elements = 100;
  for (std::size_t hostile = 0; hostile < ranks; ++hostile) {
    Cluster cluster({.generation = 99,
                     .algorithm = algorithm,
                     .buckets = buckets_of(elements, 2),
                     .segment = 11,
                     .scale = 1 / n,
                     .largest = largest_gradient},
                    ranks, elements, Rng(hostile));
    for (const auto& input : cluster.inputs) std::ranges::fill(*input, largest_gradient);
    cluster.poison = {hostile, times * largest_gradient};
    cluster.begin(std::vector<float>(ranks, 1.0f));
    cluster.run();
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      if (rank == hostile) continue;
      const AllReduce& part = cluster.parts[rank];
      if (part.unsound_from()) CHECK(*part.unsound_from() == peer(hostile));
      if (part.done()) CHECK(largest_magnitude(*part.result()) <= 4 * largest_gradient);
    }
  }
}

TEST_CASE("a peer that sends far longer values than ours is named, and they enter no sum",
          "[allreduce][all_reduce]") {
  const std::size_t ranks = GENERATE(2, 3, 5);
  const float factor = GENERATE(2.0f, 100.0f);
  const std::size_t elements = 400;
  for (std::size_t hostile = 0; hostile < ranks; ++hostile) {
    Cluster cluster({.generation = 99,
                     .algorithm = ReduceAlgorithm::direct,
                     .buckets = buckets_of(elements, 2),
                     .segment = 60,
                     .norm_cap = 10,
                     .unweighted_from = elements - 2},
                    ranks, elements, Rng(hostile));
    // The unweighted numbers after the vector are not part of it, so they may have any value.
    for (auto& input : cluster.inputs) input->back() = 1e6f * static_cast<float>(1 + hostile);
    cluster.longer = {hostile, factor};
    cluster.begin(std::vector<float>(ranks, 1.0f));
    cluster.run();
    CAPTURE(ranks, factor, hostile);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      if (rank == hostile) continue;
      const AllReduce& part = cluster.parts[rank];
      if (factor < 10) {
        CHECK_FALSE(part.unsound_from());
        CHECK(part.done());
      } else {
        REQUIRE(part.unsound_from());
        CHECK(*part.unsound_from() == peer(hostile));
        CHECK_FALSE(part.done());
      }
    }
  }
}

TEST_CASE("a ring sends exactly the bytes that the formula says", "[allreduce][all_reduce]") {
  const std::size_t ranks = GENERATE(2, 4, 8);
  const std::size_t elements = 64 * ranks;
  Cluster cluster({.generation = 1, .buckets = {{0, elements}}, .segment = 10}, ranks, elements,
                  Rng(3));
  cluster.begin(std::vector<float>(ranks, 1.0f));
  cluster.run();
  for (const AllReduce& part : cluster.parts) {
    CHECK(part.bytes_sent() == 2 * elements * sizeof(float) * (ranks - 1) / ranks);
  }
}

TEST_CASE("coded sums are the same bits for everybody, near the exact ones, and in fewer bytes",
          "[allreduce][all_reduce]") {
  struct Format {
    WireFormat wire;
    double error;  ///< Largest error of the sum, relative to the norm of all inputs.
    double bytes;  ///< Largest number of bytes sent, relative to plain pieces.
  };
  const auto format = GENERATE(
      Format{{Codec::fp16, false}, 1e-3, 0.51}, Format{{Codec::bf16, false}, 1e-2, 0.51},
      Format{{Codec::qsgd8, false}, 0.5, 0.27}, Format{{Codec::identity, true}, 1e-6, 1.01},
      Format{{Codec::qsgd8, true}, 0.5, 0.27});
  const std::size_t ranks = GENERATE(2, 3, 5, 8);
  const std::size_t elements = 8192;
  Cluster cluster({.generation = 3,
                   .buckets = buckets_of(elements, 2),
                   .segment = 700,
                   .unweighted_from = elements - 3,
                   .wire = format.wire},
                  ranks, elements, Rng(9));
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    Vector& input = *cluster.inputs[rank];
    for (std::size_t i = elements - 3; i < elements; ++i) input[i] = static_cast<float>(rank + i);
    cluster.untouched[rank] = input;
  }
  const float weight = 1.0f / static_cast<float>(ranks);
  cluster.begin(std::vector<float>(ranks, weight));
  cluster.run();
  const Vector& result = *cluster.parts.front().result();
  double squares = 0;
  double error = 0;
  for (std::size_t i = 0; i < elements; ++i) {
    double sum = 0;
    for (const Vector& input : cluster.untouched) {
      sum += (i < elements - 3 ? weight : 1.0) * static_cast<double>(input[i]);
    }
    if (i >= elements - 3) {
      CHECK(static_cast<double>(result[i]) == sum);  // Every codec keeps these values exact.
      continue;
    }
    squares += sum * sum;
    error += (result[i] - sum) * (result[i] - sum);
  }
  CHECK(std::sqrt(error / squares) < format.error * static_cast<double>(ranks));
  for (const AllReduce& part : cluster.parts) {
    REQUIRE(part.done());
    CHECK(*part.result() == result);
    const double plain = 2.0 * elements * sizeof(float) * static_cast<double>(ranks - 1) /
                         static_cast<double>(ranks);
    CHECK(static_cast<double>(part.bytes_sent()) < 1.05 * format.bytes * plain + 400);
  }
}

TEST_CASE("sparse inputs make sparse pieces", "[allreduce][all_reduce]") {
  const std::size_t ranks = 8;
  const std::size_t elements = 8 * 4096;
  Cluster cluster({.generation = 3,
                   .buckets = {{0, elements}},
                   .segment = 4096,
                   .wire = {Codec::identity, true}},
                  ranks, elements, Rng(9));
  Rng rng(4);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (float& value : *cluster.inputs[rank]) {
      value = rng.chance(16.0 / 512) ? static_cast<float>(1 + rng.below(100)) : 0.0f;
    }
    cluster.untouched[rank] = *cluster.inputs[rank];
  }
  cluster.begin(std::vector<float>(ranks, 1.0f));
  cluster.run();
  for (const AllReduce& part : cluster.parts) {
    REQUIRE(part.done());
    // The sum of eight vectors has values at 22 % of its places. Each of these values takes 6 bytes
    // instead of 4.
    CHECK(part.bytes_sent() < 2 * elements * sizeof(float) * 7 / 8 / 3);
    for (std::size_t i = 0; i < elements; ++i) {
      float sum = 0;
      for (const Vector& input : cluster.untouched) sum += input[i];
      REQUIRE((*part.result())[i] == sum);  // Sums of small integers are not rounded.
    }
  }
}

TEST_CASE("pieces of another operation, generation or length are not ours",
          "[allreduce][all_reduce]") {
  const AllReduceShape options{
      .order = {peer(0), peer(1)}, .generation = 5, .buckets = {{0, 8}}, .segment = 8};
  AllReduce part(options, peer(0), 3, 1, std::make_shared<Vector>(8), std::make_shared<Vector>(8));
  Effects out;
  const Vector values(8);
  const auto bytes = std::as_bytes(std::span(values));
  const auto block = [&](PieceName piece, std::uint64_t generation, std::size_t length) {
    return Block{piece_id(peer(1), generation, piece), 0, bytes.first(length)};
  };
  // In round 0 rank 0 of two receives chunk 1 of the ring, which is elements 4 to 8.
  const PieceName piece{.operation = 3, .bucket = 0, .round = 0, .segment = 0};
  CHECK_FALSE(part.receive(peer(1), block({.operation = 4}, 5, 16), out));
  CHECK_FALSE(part.receive(peer(1), block({.operation = 3, .bucket = 1}, 5, 16), out));
  CHECK_FALSE(part.receive(peer(1), block({.operation = 3, .round = 9}, 5, 16), out));
  CHECK_FALSE(part.receive(peer(1), block({.operation = 3, .segment = 1}, 5, 16), out));
  CHECK_FALSE(part.receive(peer(1), block(piece, 6, 16), out));
  CHECK_FALSE(part.receive(peer(1), block(piece, 5, 12), out));
  CHECK_FALSE(part.receive(peer(2), block(piece, 5, 16), out));
  const auto of_a_stage = piece_id(peer(1), 5, piece, 1);
  CHECK_FALSE(part.receive(peer(1), {of_a_stage, 0, bytes.first(16)}, out));
  TransferId other_kind = piece_id(peer(1), 5, piece);
  other_kind.kind = TransferKind::state;
  CHECK_FALSE(part.receive(peer(1), {other_kind, 0, bytes.first(16)}, out));
  // Blocks that do not belong to this collective also get no place in its memory.
  const auto place = [&](std::size_t from, PieceName name, std::uint64_t generation,
                         std::size_t length) {
    return part.place(peer(from), piece_id(peer(from), generation, name), 0, length);
  };
  CHECK(place(1, {.operation = 4}, 5, 16).empty());
  CHECK(place(1, {.operation = 3, .bucket = 1}, 5, 16).empty());
  CHECK(place(1, {.operation = 3, .round = 9}, 5, 16).empty());
  CHECK(place(1, piece, 6, 16).empty());
  CHECK(place(1, piece, 5, 12).empty());
  CHECK(place(2, piece, 5, 16).empty());
  // In round 1 the other half arrives as a result. Before it has been summed, there is no place for
  // it.
  CHECK(place(1, {.operation = 3, .round = 1}, 5, 16).empty());
  CHECK(place(1, piece, 5, 16).data() ==
        std::as_writable_bytes(std::span(*part.result()).subspan(4)).data());
  CHECK(part.receive(peer(1), block(piece, 5, 16), out));
  CHECK(place(1, piece, 5, 16).empty());  // The block has already arrived.
  CHECK(out.transfers.empty());  // Nothing is sent, because our own input is not ready yet.
}

}  // namespace gv
