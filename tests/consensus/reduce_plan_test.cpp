// Plans of an all-reduce give the exact sum on every rank, in whatever order messages arrive.
#include "consensus/allreduce/reduce_plan.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "base/rng.hpp"

namespace gv {
namespace {

using Kind = ReduceStep::Kind;

constexpr std::size_t sizes[] = {0, 1, 2, 3, 4, 5, 6, 16, 17, 1023};

template <class T>
using Vectors = std::vector<std::vector<T>>;

std::vector<std::vector<ReduceStep>> plans_of(ReduceAlgorithm algorithm, std::size_t ranks,
                                              std::size_t elements) {
  std::vector<std::vector<ReduceStep>> plans;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    plans.push_back(reduce_plan(algorithm, ranks, rank, elements));
  }
  return plans;
}

using MessageName = std::tuple<std::size_t, std::size_t, std::size_t>;

/// The (sender, receiver, round) of the message in a plan's step at `rank`.
MessageName message_of(std::size_t rank, const ReduceStep& step) {
  return step.kind == Kind::send ? MessageName{rank, step.peer, step.round}
                                 : MessageName{step.peer, rank, step.round};
}

enum class Order {
  sequential,   ///< A rank finishes one step of its plan before it begins the next.
  overlapping,  ///< A rank works on pieces of any step that its earlier steps permit.
};

/// All ranks together: values, plans, the progress of each step, and the messages in flight.
template <class T>
class Executor {
 public:
  Executor(ReduceAlgorithm algorithm, Vectors<T> values)
      : values_(std::move(values)),
        plans_(plans_of(algorithm, values_.size(), values_.front().size())) {
    for (const auto& plan : plans_) done_.emplace_back(plan.size());
  }

  /// Runs to the end in pieces of random length and in random order. Returns false if the run gets
  /// stuck.
  bool run(Rng& rng, Order order) {
    std::vector<std::pair<std::size_t, std::size_t>> open;
    for (std::size_t rank = 0; rank < plans_.size(); ++rank) {
      for (std::size_t step = 0; step < plans_[rank].size(); ++step) open.emplace_back(rank, step);
    }
    while (!open.empty()) {
      rng.shuffle(std::span(open));
      bool moved = false;
      for (const auto& [rank, step] : open) {
        const std::size_t ready = elements_ready(rank, step, order);
        if (ready == 0) continue;
        advance(rank, step, 1 + rng.below(ready));
        moved = true;
      }
      if (!moved) return false;
      std::erase_if(open, [&](const auto& at) {
        return done_[at.first][at.second] == plans_[at.first][at.second].range.size();
      });
    }
    return true;
  }

  /// Runs all steps of one round, with all sends first.
  void run_round(std::size_t round) {
    for (const bool sends : {true, false}) {
      for (std::size_t rank = 0; rank < plans_.size(); ++rank) {
        for (std::size_t i = 0; i < plans_[rank].size(); ++i) {
          const ReduceStep& step = plans_[rank][i];
          if (step.round == round && (step.kind == Kind::send) == sends) {
            advance(rank, i, step.range.size());
          }
        }
      }
    }
  }

  const Vectors<T>& values() const { return values_; }

 private:
  /// How many more elements of a step can be done now, given the progress of the rank's earlier
  /// steps and of the message that the step receives.
  std::size_t elements_ready(std::size_t rank, std::size_t index, Order order) const {
    const ReduceStep& step = plans_[rank][index];
    const std::size_t from = step.range.begin + done_[rank][index];
    std::size_t to = step.range.end;
    for (std::size_t i = 0; i < index; ++i) {
      const ReduceStep& earlier = plans_[rank][i];
      const std::size_t reached = earlier.range.begin + done_[rank][i];
      if (reached == earlier.range.end) continue;
      if (order == Order::sequential) return 0;
      if (earlier.range.end > from) to = std::min(to, std::max(from, reached));
    }
    if (step.kind == Kind::send) return to - from;
    const auto message = on_the_way_.find(message_of(rank, step));
    if (message == on_the_way_.end()) return 0;
    return std::min(to - from, message->second.size() - done_[rank][index]);
  }

  void advance(std::size_t rank, std::size_t index, std::size_t count) {
    const ReduceStep& step = plans_[rank][index];
    std::size_t& done = done_[rank][index];
    std::vector<T>& message = on_the_way_[message_of(rank, step)];
    for (; count > 0; --count, ++done) {
      T& value = values_[rank][step.range.begin + done];
      switch (step.kind) {
        case Kind::send:
          message.push_back(value);
          break;
        case Kind::add:
          value += message.at(done);
          break;
        case Kind::copy:
          value = message.at(done);
          break;
      }
    }
  }

  Vectors<T> values_;
  std::vector<std::vector<ReduceStep>> plans_;
  std::vector<std::vector<std::size_t>> done_;
  std::map<MessageName, std::vector<T>> on_the_way_;
};

Vectors<std::int64_t> integers(std::size_t ranks, std::size_t elements, Rng& rng) {
  Vectors<std::int64_t> values(ranks, std::vector<std::int64_t>(elements));
  for (auto& vector : values) {
    for (auto& value : vector) value = static_cast<std::int64_t>(rng.below(1'000'000));
  }
  return values;
}

template <class T>
std::vector<T> sum_of(const Vectors<T>& values) {
  std::vector<T> sum(values.front().size());
  for (const auto& vector : values) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += vector[i];
  }
  return sum;
}

std::size_t elements_sent(const std::vector<ReduceStep>& plan) {
  std::size_t sent = 0;
  for (const ReduceStep& step : plan) sent += step.kind == Kind::send ? step.range.size() : 0;
  return sent;
}

}  // namespace

TEST_CASE("every rank ends with the exact sum whatever order pieces arrive in") {
  const ReduceAlgorithm algorithm = GENERATE(from_range(reduce_algorithms()));
  const Order order = GENERATE(Order::sequential, Order::overlapping);
  Rng rng(1);
  for (std::size_t ranks = 1; ranks <= 17; ++ranks) {
    for (const std::size_t elements : sizes) {
      INFO(to_string(algorithm) << " ranks " << ranks << " elements " << elements);
      const auto inputs = integers(ranks, elements, rng);
      const auto expected = sum_of(inputs);
      Executor executor(algorithm, inputs);
      REQUIRE(executor.run(rng, order));
      for (const auto& result : executor.values()) REQUIRE(result == expected);
    }
  }
}

TEST_CASE("all ranks hold the same bits of a float sum in every run") {
  const ReduceAlgorithm algorithm = GENERATE(from_range(reduce_algorithms()));
  const std::size_t ranks = GENERATE(2, 3, 7, 8, 13);
  constexpr std::size_t elements = 257;
  Rng rng(ranks);
  Vectors<float> inputs(ranks, std::vector<float>(elements));
  for (auto& vector : inputs) {
    for (float& value : vector) value = static_cast<float>(rng.normal() * 1e3);
  }
  std::vector<float> first;
  for (int run = 0; run < 10; ++run) {
    Executor executor(algorithm, inputs);
    REQUIRE(executor.run(rng, Order::overlapping));
    if (first.empty()) first = executor.values().front();
    for (const auto& result : executor.values()) {
      REQUIRE(std::memcmp(result.data(), first.data(), elements * sizeof(float)) == 0);
    }
  }
}

TEST_CASE("every send has one receipt with the same range and no message has two names") {
  const ReduceAlgorithm algorithm = GENERATE(from_range(reduce_algorithms()));
  for (std::size_t ranks = 1; ranks <= 17; ++ranks) {
    for (const std::size_t elements : sizes) {
      INFO(to_string(algorithm) << " ranks " << ranks << " elements " << elements);
      std::map<MessageName, Range> sent, received;
      const auto plans = plans_of(algorithm, ranks, elements);
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        for (const ReduceStep& step : plans[rank]) {
          REQUIRE(step.peer != rank);
          REQUIRE(step.peer < ranks);
          REQUIRE(step.range.begin < step.range.end);
          REQUIRE(step.range.end <= elements);
          auto& side = step.kind == Kind::send ? sent : received;
          REQUIRE(side.emplace(message_of(rank, step), step.range).second);
        }
      }
      REQUIRE(sent == received);
    }
  }
}

TEST_CASE("after step t of a ring of five a rank holds one chunk summed over t+2 ranks") {
  constexpr std::size_t n = 5;
  const std::size_t elements = GENERATE(5, 6, 1023);
  // Rank r contributes 2^r, so a value shows which ranks' contributions it contains.
  Vectors<std::int64_t> inputs;
  for (std::size_t rank = 0; rank < n; ++rank) inputs.emplace_back(elements, 1 << rank);
  Executor executor(ReduceAlgorithm::ring, inputs);
  const auto value_of_chunk = [&](std::size_t rank, std::size_t chunk) {
    const std::size_t begin = chunk * elements / n;
    const std::size_t end = (chunk + 1) * elements / n;
    const auto& values = executor.values()[rank];
    REQUIRE(std::all_of(values.begin() + begin, values.begin() + end,
                        [&](std::int64_t value) { return value == values[begin]; }));
    return values[begin];
  };
  for (std::size_t t = 0; t < n - 1; ++t) {
    executor.run_round(t);
    for (std::size_t rank = 0; rank < n; ++rank) {
      const std::size_t chunk = (rank + 2 * n - t - 1) % n;
      std::int64_t contributions = 0;  // The sum of 2^r for the ranks chunk, chunk+1, ..., rank.
      for (std::size_t i = 0; i < t + 2; ++i) contributions |= 1 << (chunk + i) % n;
      CHECK(value_of_chunk(rank, chunk) == contributions);
    }
  }
  for (std::size_t chunk = 0; chunk < n; ++chunk) {
    CHECK(value_of_chunk((chunk + n - 1) % n, chunk) == 0b11111);
  }
  for (std::size_t t = 0; t < n - 1; ++t) executor.run_round(n - 1 + t);
  for (const auto& result : executor.values()) {
    CHECK(result == std::vector<std::int64_t>(elements, 0b11111));
  }
}

TEST_CASE("a rank sends and receives at most one message a round and rounds go up") {
  const ReduceAlgorithm algorithm = GENERATE(from_range(reduce_algorithms()));
  for (std::size_t ranks = 1; ranks <= 33; ++ranks) {
    for (const auto& plan : plans_of(algorithm, ranks, 1000)) {
      std::set<std::pair<std::size_t, bool>> seen;
      std::size_t reached = 0;
      for (const ReduceStep& step : plan) {
        REQUIRE(seen.emplace(step.round, step.kind == Kind::send).second);
        REQUIRE(step.round >= reached);
        reached = step.round;
      }
    }
  }
}

TEST_CASE("rounds and bytes sent are what the formulas say") {
  const ReduceAlgorithm algorithm = GENERATE(from_range(reduce_algorithms()));
  for (std::size_t ranks = 1; ranks <= 17; ++ranks) {
    for (const std::size_t elements : {0u, 1u, 5u, 1023u, 720720u}) {
      INFO(to_string(algorithm) << " ranks " << ranks << " elements " << elements);
      const ReduceCost cost = reduce_cost(algorithm, ranks, elements);
      std::map<std::size_t, std::size_t> rounds;  // The longest message's length in each round.
      std::size_t most = 0;
      for (const auto& plan : plans_of(algorithm, ranks, elements)) {
        for (const ReduceStep& step : plan) {
          std::size_t& longest = rounds[step.round];
          longest = std::max(longest, step.range.size());
        }
        most = std::max(most, elements_sent(plan));
      }
      std::size_t critical = 0;
      for (const auto& [round, longest] : rounds) critical += longest;
      REQUIRE(static_cast<double>(rounds.size()) == cost.rounds);
      // Chunks and halves consist of whole elements, which adds less than one element to each
      // message.
      const bool divides = elements == 720720 && ranks != 17;
      const double rounding = divides ? 1e-6 : 4 * cost.rounds;
      const auto bytes = [](std::size_t counted) { return 4 * static_cast<double>(counted); };
      REQUIRE(std::abs(bytes(most) - cost.sent_bytes) <= rounding);
      REQUIRE(std::abs(bytes(critical) - cost.critical_bytes) <= rounding);
    }
  }
}

TEST_CASE(
    "sent directly a chunk is summed by the rank of its number in the order of those before it") {
  constexpr std::size_t n = 5;
  const std::size_t elements = GENERATE(5, 6, 1023);
  Rng rng(elements);
  Vectors<float> inputs(n, std::vector<float>(elements));
  for (auto& vector : inputs) {
    for (float& value : vector) value = static_cast<float>(rng.normal() * 1e3);
  }
  std::vector<float> expected(elements);
  for (std::size_t chunk = 0; chunk < n; ++chunk) {
    for (std::size_t i = chunk * elements / n; i < (chunk + 1) * elements / n; ++i) {
      expected[i] = inputs[chunk][i];
      for (std::size_t back = 1; back < n; ++back) expected[i] += inputs[(chunk + n - back) % n][i];
    }
  }
  Executor executor(ReduceAlgorithm::direct, inputs);
  REQUIRE(executor.run(rng, Order::overlapping));
  for (const auto& result : executor.values()) {
    REQUIRE(std::memcmp(result.data(), expected.data(), elements * sizeof(float)) == 0);
  }
}

TEST_CASE("a message waits for one of an earlier phase and for none of its own") {
  const ReduceAlgorithm algorithm = GENERATE(from_range(reduce_algorithms()));
  for (std::size_t ranks = 1; ranks <= 17; ++ranks) {
    CAPTURE(to_string(algorithm), ranks);
    std::set<std::size_t> phases;
    for (const auto& plan : plans_of(algorithm, ranks, 1023)) {
      for (std::size_t i = 0; i < plan.size(); ++i) {
        const std::size_t phase = phase_of(algorithm, ranks, plan[i].round);
        phases.insert(phase);
        if (plan[i].kind != Kind::send) continue;
        for (std::size_t earlier = 0; earlier < i; ++earlier) {
          const ReduceStep& step = plan[earlier];
          const bool apart =
              step.range.end <= plan[i].range.begin || plan[i].range.end <= step.range.begin;
          if (step.kind == Kind::send || apart) continue;
          REQUIRE(phase_of(algorithm, ranks, step.round) < phase);
        }
      }
    }
    CHECK(static_cast<double>(phases.size()) == reduce_cost(algorithm, ranks, 1023).phases);
  }
}

TEST_CASE("after round t of a butterfly of eight a rank holds what 2^t ranks around it had") {
  // Rank r contributes 2^r, so a value shows which ranks' contributions it contains.
  constexpr std::size_t n = 8;
  Vectors<std::int64_t> inputs;
  for (std::size_t rank = 0; rank < n; ++rank) inputs.emplace_back(10, 1 << rank);
  Executor executor(ReduceAlgorithm::butterfly, inputs);
  for (std::size_t round = 1; round <= 3; ++round) {
    executor.run_round(round);
    const std::size_t group = std::size_t{1} << round;
    for (std::size_t rank = 0; rank < n; ++rank) {
      const std::int64_t contributions = ((1 << group) - 1) << rank / group * group;
      CHECK(executor.values()[rank] == std::vector<std::int64_t>(10, contributions));
    }
  }
}

TEST_CASE("every rank of a ring sends its share and no more") {
  for (std::size_t ranks = 2; ranks <= 17; ++ranks) {
    for (const std::size_t elements : sizes) {
      for (const auto& plan : plans_of(ReduceAlgorithm::ring, ranks, elements)) {
        const double share =
            2.0 * static_cast<double>(elements * (ranks - 1)) / static_cast<double>(ranks);
        // A rank sends all chunks but one, twice each. With d elements and n ranks, a chunk's size
        // is within one element of d/n.
        REQUIRE(std::abs(static_cast<double>(elements_sent(plan)) - share) < 2);
      }
    }
  }
}

TEST_CASE("predicted times are those worked out by hand for 10 Gbit per second and 50 us") {
  const ReduceSite site{.link = {.latency_s = 50e-6, .seconds_per_byte = 0.8e-9}};
  const auto milliseconds = [&](ReduceAlgorithm algorithm, std::size_t ranks, std::size_t bytes) {
    return 1e3 * predicted_seconds(algorithm, ranks, bytes / 4, site);
  };
  // The expected values are given to two or three digits.
  CHECK(milliseconds(ReduceAlgorithm::tree, 16, 1000) == Approx(0.406).epsilon(0.01));
  CHECK(milliseconds(ReduceAlgorithm::ring, 16, 1000) == Approx(1.50).epsilon(0.01));
  CHECK(milliseconds(ReduceAlgorithm::halving_doubling, 16, 1000) == Approx(0.402).epsilon(0.01));
  CHECK(milliseconds(ReduceAlgorithm::butterfly, 16, 1000) == Approx(0.204).epsilon(0.01));
  CHECK(milliseconds(ReduceAlgorithm::butterfly, 17, 1000) == Approx(0.306).epsilon(0.01));
  CHECK(milliseconds(ReduceAlgorithm::tree, 16, 1000000) == Approx(6.8).epsilon(0.01));
  CHECK(milliseconds(ReduceAlgorithm::ring, 16, 1000000) == Approx(3.0).epsilon(0.01));
  CHECK(milliseconds(ReduceAlgorithm::halving_doubling, 16, 1000000) == Approx(2.28).epsilon(0.01));
  CHECK(milliseconds(ReduceAlgorithm::tree, 16, 100000000) == Approx(640).epsilon(0.01));
  CHECK(milliseconds(ReduceAlgorithm::ring, 16, 100000000) == Approx(152).epsilon(0.01));
  CHECK(milliseconds(ReduceAlgorithm::halving_doubling, 16, 100000000) ==
        Approx(188).epsilon(0.01));
  CHECK(milliseconds(ReduceAlgorithm::tree, 64, 1000000) == Approx(10.2).epsilon(0.01));
  CHECK(milliseconds(ReduceAlgorithm::ring, 64, 1000000) == Approx(7.88).epsilon(0.01));
  CHECK(milliseconds(ReduceAlgorithm::halving_doubling, 64, 1000000) == Approx(2.57).epsilon(0.01));
}

TEST_CASE("few bytes go by few messages and many bytes by the ring") {
  const ReduceSite site{.link = {.latency_s = 50e-6, .seconds_per_byte = 0.8e-9}};
  for (const std::size_t ranks : {4u, 5u, 6u, 7u, 8u, 9u, 12u, 16u, 17u, 33u, 64u}) {
    INFO("ranks " << ranks);
    // With n ranks and k = floor(lg n), the butterfly needs k or k + 2 latencies. The others need
    // 2k or 2(k + 1), or two latencies plus the cost of 2(n - 2) more messages.
    CHECK(fastest(ranks, 100, site) == ReduceAlgorithm::butterfly);
    CHECK(fastest(ranks, 100'000'000, site) == ReduceAlgorithm::ring);
  }
  // With n = 2^k ranks, latency L, m bytes and G seconds per byte, halving-doubling takes 2Lk +
  // 1.25 * 2mG(n-1)/n. That equals the butterfly's (L + 1.35mG)k at mG = 1.64L for n = 8, and at
  // 1.32L for n = 16.
  CHECK(fastest(8, 25'000, site) == ReduceAlgorithm::butterfly);
  CHECK(fastest(8, 26'000, site) == ReduceAlgorithm::halving_doubling);
  CHECK(fastest(16, 20'000, site) == ReduceAlgorithm::butterfly);
  CHECK(fastest(16, 21'000, site) == ReduceAlgorithm::halving_doubling);
  // Two ranks exchange whole vectors once, or halves twice.
  CHECK(fastest(2, 100, site) == ReduceAlgorithm::butterfly);
  CHECK(fastest(2, 100'000, site) == ReduceAlgorithm::ring);
  // If all algorithms cost the same, the one with the fewest links wins.
  CHECK(fastest(1, 100, site) == ReduceAlgorithm::ring);
  CHECK(fastest(8, 0, site) == ReduceAlgorithm::ring);
}

TEST_CASE("five ranks change to the ring where two messages less weigh as much as the bytes") {
  // With latency L, m bytes and G seconds per byte, the ring takes 8L + 1.6mG. That equals
  // halving-doubling's 6L + 1.25 * 3.5mG at mG = 2L/2.775.
  constexpr double latency = 1;
  const auto at = [](double bytes_seconds) {
    const ReduceSite site{.link = {latency, bytes_seconds / 4e6}};
    const std::array algorithms{ReduceAlgorithm::ring, ReduceAlgorithm::halving_doubling,
                                ReduceAlgorithm::tree};
    return *std::ranges::min_element(algorithms, {}, [&](ReduceAlgorithm algorithm) {
      return predicted_seconds(algorithm, 5, 1'000'000, site);
    });
  };
  CHECK(at(0.99 * 2 / 2.775) == ReduceAlgorithm::halving_doubling);
  CHECK(at(1.01 * 2 / 2.775) == ReduceAlgorithm::ring);
}

TEST_CASE("five ranks change from two phases to the ring where latencies weigh as much as copies") {
  // With latency L, m bytes and G seconds per byte, `direct` takes 2L + 1.35 * 1.6mG. That equals
  // the ring's 8L + 1.6mG at mG = 6L/0.56. The cost of an additional message is negligible next to
  // a second.
  constexpr double latency = 1;
  const auto at = [](double bytes_seconds) {
    return fastest(5, 1'000'000, {.link = {latency, bytes_seconds / 4e6}});
  };
  CHECK(at(0.01) == ReduceAlgorithm::direct);
  CHECK(at(0.99 * 6 / 0.56) == ReduceAlgorithm::direct);
  CHECK(at(1.01 * 6 / 0.56) == ReduceAlgorithm::ring);
}

TEST_CASE("of many ranks whose links wait long each sends its messages without waiting") {
  // The choice weighs two latencies and 2(n-2) additional messages of 25 us against lg n latencies.
  const auto at = [](std::size_t ranks, double latency_s) {
    return fastest(ranks, 100, {.link = {latency_s, 0.8e-9}});
  };
  for (const std::size_t ranks : {8u, 16u, 32u}) {
    CAPTURE(ranks);
    const auto n = static_cast<double>(ranks);
    const double equal = 2 * (n - 2) * 25e-6 / (std::log2(n) - 2);
    CHECK(at(ranks, 0.9 * equal) == ReduceAlgorithm::butterfly);
    CHECK(at(ranks, 1.1 * equal) == ReduceAlgorithm::direct);
  }
  // With four ranks both algorithms have two phases.
  CHECK(at(4, 1) == ReduceAlgorithm::butterfly);
  // Above this number of ranks, direct sums would need too many connections.
  CHECK(at(direct_ranks_max + 1, 1) == ReduceAlgorithm::butterfly);
}

TEST_CASE("where processors are fewer than peers few messages win and with shared memory chunks") {
  // These choices were measured to be the best on two processors. See docs/performance.md.
  const auto chosen = [](std::size_t ranks, std::size_t bytes, bool shares_memory) {
    return fastest(ranks, bytes / sizeof(float),
                   {.link = shares_memory ? memory_link : host_link,
                    .peers_per_processor = static_cast<double>(ranks) / 2,
                    .is_one_host = true,
                    .shares_memory = shares_memory});
  };
  using enum ReduceAlgorithm;
  for (const std::size_t ranks : {4u, 8u}) {
    CAPTURE(ranks);
    for (const std::size_t bytes : {1u << 10, 64u << 10, 1u << 20, 16u << 20, 128u << 20}) {
      CHECK(chosen(ranks, bytes, false) == tree);
    }
    for (const std::size_t bytes : {1u << 10, 64u << 10, 512u << 10}) {
      CHECK(chosen(ranks, bytes, true) == tree);
    }
    // With eight ranks, `direct` would need too many messages from each rank.
    CHECK(chosen(ranks, 1 << 20, true) == (ranks == 4 ? direct : tree));
    for (const std::size_t bytes : {2u << 20, 4u << 20, 16u << 20}) {
      CHECK(chosen(ranks, bytes, true) == direct);
    }
    // Here each rank has its own processor, and the links are the same.
    const double uncrowded = 1.0 / static_cast<double>(ranks);
    CHECK(fastest(ranks, 4 << 20, {.link = host_link, .peers_per_processor = uncrowded}) == ring);
  }
  // With two ranks, each on its own processor, a tree would leave all additions to one of them.
  for (const std::size_t bytes : {1u << 10, 64u << 10, 4u << 20, 16u << 20}) {
    CAPTURE(bytes);
    CHECK(chosen(2, bytes, false) != tree);
    CHECK(chosen(2, bytes, true) != tree);
  }
}

TEST_CASE("a message costs those who sleep between messages more") {
  const ReduceSite apart{.peers_per_processor = 2};
  ReduceSite together = apart;
  together.is_one_host = true;
  const double messages = reduce_cost(ReduceAlgorithm::ring, 4, 0).messages;
  CHECK(processor_seconds(ReduceAlgorithm::ring, 4, 0, apart) == Approx(2 * messages * 25e-6));
  CHECK(processor_seconds(ReduceAlgorithm::ring, 4, 0, together) == Approx(2 * messages * 6e-6));
}

TEST_CASE("messages counted in plans are those of the formulas") {
  const ReduceAlgorithm algorithm = GENERATE(from_range(reduce_algorithms()));
  for (std::size_t ranks = 1; ranks <= 33; ++ranks) {
    std::size_t messages = 0;
    std::size_t elements = 0;
    for (const auto& plan : plans_of(algorithm, ranks, 720720)) {
      messages += static_cast<std::size_t>(std::ranges::count(plan, Kind::send, &ReduceStep::kind));
      elements += elements_sent(plan);
    }
    const ReduceCost cost = reduce_cost(algorithm, ranks, 720720);
    const auto n = static_cast<double>(ranks);
    CHECK(static_cast<double>(messages) == Approx(n * cost.messages));
    // Chunks consist of whole elements, and no element is lost or sent twice.
    CHECK(4.0 * static_cast<double>(elements) == Approx(n * cost.mean_bytes));
  }
}

TEST_CASE("an algorithm has a name") {
  for (const ReduceAlgorithm algorithm : reduce_algorithms()) {
    CHECK(algorithm_named(to_string(algorithm)) == algorithm);
    CHECK(algorithm_names().find(to_string(algorithm)) != std::string::npos);
  }
  CHECK_FALSE(algorithm_named("auto"));
  CHECK(to_string(ReduceAlgorithm::ring) == "ring");
  CHECK(to_string(ReduceAlgorithm::halving_doubling) == "halving_doubling");
  CHECK(to_string(ReduceAlgorithm::tree) == "tree");
  CHECK(to_string(ReduceAlgorithm::direct) == "direct");
  CHECK(to_string(ReduceAlgorithm::butterfly) == "butterfly");
}

}  // namespace gv
