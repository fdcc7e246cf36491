// Builds Base-(k+1) in the order of the authors' code, github.com/yukiTakezawa/BaseGraph.
#include "consensus/topology/base_k.hpp"

#include <algorithm>
#include <numeric>
#include <span>

#include "base/check.hpp"

namespace gv {
namespace {

using Ranks = std::vector<std::size_t>;

/// The ranks first, first + 1, ...
Ranks ranks_from(std::size_t first, std::size_t count) {
  Ranks ranks(count);
  std::iota(ranks.begin(), ranks.end(), first);
  return ranks;
}

void join(Mixing& round, std::size_t a, std::size_t b, double weight) {
  round[a].push_back({b, weight});
  round[b].push_back({a, weight});
}

/// Adds weights to `round` that make the ranks of a group average, all with equal weight.
void average(Mixing& round, std::span<const std::size_t> group) {
  const double weight = 1 / static_cast<double>(group.size());
  for (std::size_t i = 0; i < group.size(); ++i) {
    for (std::size_t j = i + 1; j < group.size(); ++j) join(round, group[i], group[j], weight);
  }
}

/// Factors of n between 2 and k+1, found from the largest down and returned in ascending order.
/// Empty for n = 1. Their product is less than n if n has a prime factor above k+1.
std::vector<std::size_t> small_factors(std::size_t n, std::size_t k) {
  std::vector<std::size_t> factors;
  for (std::size_t factor = std::min(k + 1, n); factor >= 2; --factor) {
    for (; n % factor == 0; n /= factor) factors.push_back(factor);
  }
  std::ranges::reverse(factors);
  return factors;
}

std::size_t product(const std::vector<std::size_t>& factors) {
  std::size_t product = 1;
  for (const std::size_t factor : factors) product *= factor;
  return product;
}

/// The k-peer hyper-hypercube over some ranks, whose number has no prime factor above k+1. Each
/// factor corresponds to a digit of a rank, and has one round, in which the ranks that differ only
/// in that digit average.
class HyperHypercube {
 public:
  HyperHypercube(Ranks ranks, std::size_t k)
      : ranks_(std::move(ranks)), factors_(small_factors(ranks_.size(), k)) {
    check(product(factors_) == ranks_.size(), "a hyper-hypercube has no factor above k+1");
  }

  /// A single rank also has one round, without exchanges, because the authors count it too.
  std::size_t rounds() const { return std::max<std::size_t>(1, factors_.size()); }

  void add_round(std::size_t number, Mixing& round) const {
    if (factors_.empty()) return;
    const std::size_t place = number % factors_.size();
    std::size_t stride = 1;
    for (std::size_t i = 0; i < place; ++i) stride *= factors_[i];
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (i / stride % factors_[place] != 0) continue;
      Ranks group;
      for (std::size_t digit = 0; digit < factors_[place]; ++digit) {
        group.push_back(ranks_[i + digit * stride]);
      }
      average(round, group);
    }
  }

 private:
  Ranks ranks_;
  std::vector<std::size_t> factors_;
};

/// The block of ranks for one digit of n in base k+1, as a whole and divided into parts. A digit d
/// at place p gives a block of d (k+1)^p ranks in d parts.
struct Block {
  std::size_t size = 0;
  Ranks ranks;
  std::vector<Ranks> parts;
  HyperHypercube whole;
  std::vector<HyperHypercube> in_parts;
};

std::vector<Block> blocks_of(std::size_t first, std::size_t n, std::size_t k) {
  std::vector<Block> blocks;
  std::size_t power = 1;
  while (power * (k + 1) <= n) power *= k + 1;
  for (; power >= 1 && n > 0; power /= k + 1) {
    const std::size_t digit = n / power;
    if (digit == 0) continue;
    Block block{.size = digit * power,
                .ranks = ranks_from(first, digit * power),
                .parts = {},
                .whole = HyperHypercube(ranks_from(first, digit * power), k),
                .in_parts = {}};
    for (std::size_t part = 0; part < digit; ++part) {
      block.parts.push_back(ranks_from(first + part * power, power));
      block.in_parts.emplace_back(block.parts.back(), k);
    }
    blocks.push_back(std::move(block));
    first += digit * power;
    n -= digit * power;
  }
  return blocks;
}

/// Round `stage` of phase (2) in the header: block `stage` meets the later blocks. The block's
/// remaining ranks average among themselves in groups of k+1, which also helps mixing.
void meet_later_blocks(const std::vector<Block>& blocks, std::size_t stage, std::size_t k,
                       Mixing& round) {
  std::vector<Ranks> free = blocks[stage].parts;
  double sizes = 0;
  for (std::size_t l = stage; l < blocks.size(); ++l) sizes += static_cast<double>(blocks[l].size);
  const double taken = static_cast<double>(blocks[stage].size) / sizes;
  for (std::size_t l = blocks.size(); l-- > stage + 1;) {
    for (const std::size_t rank : blocks[l].ranks) {
      for (Ranks& part : free) {
        join(round, rank, part.back(), taken / static_cast<double>(free.size()));
        part.pop_back();
      }
    }
  }
  Ranks left;
  for (const Ranks& part : free) left.insert(left.end(), part.begin(), part.end());
  for (std::size_t at = 0; at + 1 < left.size(); at += k + 1) {
    average(round, std::span(left).subspan(at, std::min(k + 1, left.size() - at)));
  }
}

/// Adds Simple Base-(k+1) for the ranks first, ..., first + n - 1, out of `all` ranks, to the given
/// rounds. Appends rounds if there are too few.
void add_simple(std::size_t first, std::size_t n, std::size_t k, std::size_t all,
                std::vector<Mixing>& rounds) {
  const auto round = [&](std::size_t number) -> Mixing& {
    if (rounds.size() == number) rounds.emplace_back(all);
    return rounds[number];
  };
  if (product(small_factors(n, k)) == n) {
    const HyperHypercube cube(ranks_from(first, n), k);
    for (std::size_t number = 0; number < cube.rounds(); ++number) {
      cube.add_round(number, round(number));
    }
    return;
  }
  const std::vector<Block> blocks = blocks_of(first, n, k);
  const std::size_t within = blocks.front().whole.rounds();
  const std::size_t in_parts = blocks.front().in_parts.front().rounds();
  for (std::size_t number = 0; number < within; ++number) {
    for (const Block& block : blocks) block.whole.add_round(number, round(number));
  }
  // After round `within` + l, block l has met all later blocks, and begins to average within its
  // parts.
  for (std::size_t number = within; number < within + 1 + in_parts; ++number) {
    const std::size_t stage = number - within;
    if (stage + 1 < blocks.size()) meet_later_blocks(blocks, stage, k, round(number));
    for (std::size_t l = 0; l < std::min(stage + 1, blocks.size()); ++l) {
      const bool is_last = l + 1 == blocks.size();
      if (l == stage && !is_last) continue;
      const std::size_t done = number - within - l - (is_last ? 0 : 1);
      if (blocks[l].size < k + 1) {
        blocks[l].whole.add_round(done, round(number));
      } else {
        for (const HyperHypercube& part : blocks[l].in_parts) part.add_round(done, round(number));
      }
    }
  }
}

}  // namespace

std::size_t base_k_of(const Topology& topology) {
  return topology.degree == 0 ? 1 : topology.degree;
}

std::vector<Mixing> base_k_rounds(std::size_t n, std::size_t k) {
  check(n >= 1 && k >= 1, "Base-(k+1) has at least one peer and one partner");
  std::vector<Mixing> simple;
  add_simple(0, n, k, n, simple);
  const std::size_t groups = product(small_factors(n, k));
  const std::size_t size = n / groups;
  std::vector<Mixing> rounds = std::move(simple);
  if (groups > 1 && size > 1) {
    std::vector<Mixing> factorised;
    for (std::size_t group = 0; group < groups; ++group) {
      add_simple(group * size, size, k, n, factorised);
    }
    std::vector<HyperHypercube> across;
    for (std::size_t member = 0; member < size; ++member) {
      Ranks ranks;
      for (std::size_t group = 0; group < groups; ++group) ranks.push_back(group * size + member);
      across.emplace_back(std::move(ranks), k);
    }
    for (std::size_t number = 0; number < across.front().rounds(); ++number) {
      Mixing round(n);
      for (const HyperHypercube& cube : across) cube.add_round(number, round);
      factorised.push_back(std::move(round));
    }
    if (factorised.size() <= rounds.size()) rounds = std::move(factorised);
  }
  for (Mixing& round : rounds) {
    for (std::vector<Share>& row : round) std::ranges::sort(row, {}, &Share::from);
  }
  return rounds;
}

}  // namespace gv
