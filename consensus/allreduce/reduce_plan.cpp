// Defines the plan and the cost of each all-reduce algorithm, and the table of all of them.
#include "consensus/allreduce/reduce_plan.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <utility>

#include "base/check.hpp"

namespace gv {
namespace {

using Kind = ReduceStep::Kind;

/// A list of steps under construction. Leaves out steps over an empty range.
struct Plan {
  std::vector<ReduceStep> steps;

  void append(Kind kind, std::size_t peer, Range range, std::size_t round, bool completes = false) {
    if (!range.empty()) steps.push_back({kind, peer, range, round, completes});
  }
};

std::size_t floor_log2(std::size_t n) { return static_cast<std::size_t>(std::bit_width(n)) - 1; }
std::size_t ceil_log2(std::size_t n) { return static_cast<std::size_t>(std::bit_width(n - 1)); }

/// A rank first sends its own chunk to the right. It adds its values to each chunk that arrives
/// from the left, and passes the chunk on. Chunk c is complete at rank c-1, and then goes round the
/// ring once more.
void plan_ring(Plan& plan, std::size_t ranks, std::size_t rank, std::size_t elements) {
  const std::size_t right = (rank + 1) % ranks;
  const std::size_t left = (rank + ranks - 1) % ranks;
  const auto chunk_before_own = [&](std::size_t back) {
    const std::size_t chunk = (rank + ranks - back) % ranks;
    return Range{chunk * elements / ranks, (chunk + 1) * elements / ranks};
  };
  for (std::size_t t = 0; t + 1 < ranks; ++t) {
    plan.append(Kind::send, right, chunk_before_own(t), t);
    plan.append(Kind::add, left, chunk_before_own(t + 1), t, t + 2 == ranks);
  }
  for (std::size_t t = 0; t + 1 < ranks; ++t) {
    const std::size_t round = ranks - 1 + t;
    plan.append(Kind::send, right, chunk_before_own((t + ranks - 1) % ranks), round);
    plan.append(Kind::copy, left, chunk_before_own(t), round);
  }
}

/// Turns a plan for 2^k ranks into one for any n. The first 2(n - 2^k) ranks are folded in pairs:
/// the odd rank hands its values to the even one and waits for the result. The 2^k ranks that
/// remain are renumbered. `plan_core(place, rank_at)` plans rounds 1 to `core_rounds` for them, and
/// `rank_at` gives the rank of a place.
template <class PlanCore>
void plan_folded(Plan& plan, std::size_t ranks, std::size_t rank, std::size_t elements,
                 std::size_t core_rounds, PlanCore plan_core) {
  const std::size_t folded = 2 * (ranks - (std::size_t{1} << floor_log2(ranks)));
  const Range all{0, elements};
  if (rank < folded && rank % 2 == 1) {
    plan.append(Kind::send, rank - 1, all, 0);
    plan.append(Kind::copy, rank - 1, all, core_rounds + 1);
    return;
  }
  if (rank < folded) plan.append(Kind::add, rank + 1, all, 0);
  plan_core(rank < folded ? rank / 2 : rank - folded / 2,
            [&](std::size_t place) { return place < folded / 2 ? 2 * place : place + folded / 2; });
  if (rank < folded) plan.append(Kind::send, rank + 1, all, core_rounds + 1);
}

/// In the first half of the rounds, with partners 1, 2, 4, ... away, the ranks halve the range that
/// they are responsible for. In the second half they double the range whose sum they know.
void plan_halving_doubling(Plan& plan, std::size_t ranks, std::size_t rank, std::size_t elements) {
  const std::size_t levels = floor_log2(ranks);
  plan_folded(plan, ranks, rank, elements, 2 * levels, [&](std::size_t place, auto rank_at) {
    std::vector<Range> kept{{0, elements}};   // One range for each level.
    std::vector<Range> given{{0, elements}};  // The first entry is unused. It gives both lists
                                              // the same indices.
    for (std::size_t level = 0; level < levels; ++level) {
      const std::size_t distance = std::size_t{1} << level;
      const Range whole = kept.back();
      const std::size_t middle = whole.begin + whole.size() / 2;
      Range keep{whole.begin, middle};
      Range give{middle, whole.end};
      if (place & distance) std::swap(keep, give);
      plan.append(Kind::send, rank_at(place ^ distance), give, level + 1);
      plan.append(Kind::add, rank_at(place ^ distance), keep, level + 1, level + 1 == levels);
      kept.push_back(keep);
      given.push_back(give);
    }
    for (std::size_t level = levels; level > 0; --level) {
      const std::size_t other = rank_at(place ^ (std::size_t{1} << (level - 1)));
      const std::size_t round = 2 * levels + 1 - level;
      plan.append(Kind::send, other, kept[level], round);
      plan.append(Kind::copy, other, given[level], round);
    }
  });
}

/// A rank's parent is the rank with its lowest set bit cleared. Each child of a rank has one more
/// bit set, below the rank's lowest.
void plan_tree(Plan& plan, std::size_t ranks, std::size_t rank, std::size_t elements) {
  const std::size_t levels = ceil_log2(ranks);
  const std::size_t own_level =
      rank == 0 ? levels : static_cast<std::size_t>(std::countr_zero(rank));
  const std::size_t parent = rank & (rank - 1);
  const Range all{0, elements};
  const auto child_at = [&](std::size_t level) { return rank + (std::size_t{1} << level); };
  const auto broadcast_round = [&](std::size_t level) { return 2 * levels - 1 - level; };
  for (std::size_t level = 0; level < own_level; ++level) {
    if (child_at(level) >= ranks) continue;
    plan.append(Kind::add, child_at(level), all, level, rank == 0 && level + 1 == levels);
  }
  if (rank != 0) {
    plan.append(Kind::send, parent, all, own_level);
    plan.append(Kind::copy, parent, all, broadcast_round(own_level));
  }
  // The deepest subtree comes first, because it takes longest.
  for (std::size_t level = own_level; level-- > 0;) {
    if (child_at(level) < ranks) {
      plan.append(Kind::send, child_at(level), all, broadcast_round(level));
    }
  }
}

/// Rank c sums chunk c in a fixed order of ranks, and sends the sum to all. Each rank sends to the
/// next rank first, so that no rank receives everything at once.
void plan_direct(Plan& plan, std::size_t ranks, std::size_t rank, std::size_t elements) {
  const auto chunk_of = [&](std::size_t owner) {
    return Range{owner * elements / ranks, (owner + 1) * elements / ranks};
  };
  for (std::size_t t = 1; t < ranks; ++t) {
    const std::size_t to = (rank + t) % ranks;
    const std::size_t from = (rank + ranks - t) % ranks;
    plan.append(Kind::send, to, chunk_of(to), t - 1);
    plan.append(Kind::add, from, chunk_of(rank), t - 1, t + 1 == ranks);
  }
  for (std::size_t t = 1; t < ranks; ++t) {
    const std::size_t to = (rank + t) % ranks;
    const std::size_t from = (rank + ranks - t) % ranks;
    plan.append(Kind::send, to, chunk_of(rank), ranks - 2 + t);
    plan.append(Kind::copy, from, chunk_of(from), ranks - 2 + t);
  }
}

/// In each round a rank exchanges its partial sum with a partner 1, 2, 4, ... away, and both add
/// the two sums. After the last round every rank has the complete sum.
void plan_butterfly(Plan& plan, std::size_t ranks, std::size_t rank, std::size_t elements) {
  const std::size_t levels = floor_log2(ranks);
  plan_folded(plan, ranks, rank, elements, levels, [&](std::size_t place, auto rank_at) {
    for (std::size_t level = 0; level < levels; ++level) {
      const std::size_t partner = rank_at(place ^ (std::size_t{1} << level));
      plan.append(Kind::send, partner, {0, elements}, level + 1);
      plan.append(Kind::add, partner, {0, elements}, level + 1, level + 1 == levels);
    }
  });
}

/// Bytes that one of n ranks sends if it sends (n-1)/n of a vector of `bytes` twice.
double both_ways(double bytes, double n) { return 2 * bytes * (n - 1) / n; }

/// The cost if every rank sends 2(n-1) messages of one chunk each.
ReduceCost chunk_cost(std::size_t ranks, double bytes) {
  const double n = static_cast<double>(ranks);
  return {.rounds = 2 * (n - 1),
          .critical_bytes = both_ways(bytes, n),
          .sent_bytes = both_ways(bytes, n),
          .messages = 2 * (n - 1)};
}

ReduceCost halving_doubling_cost(std::size_t ranks, double bytes) {
  const double n = static_cast<double>(ranks);
  const auto levels = static_cast<double>(floor_log2(ranks));
  const auto core = static_cast<double>(std::size_t{1} << floor_log2(ranks));
  const double folds = core < n ? 1 : 0;
  return {.rounds = 2 * (levels + folds),
          .critical_bytes = both_ways(bytes, core) + 2 * bytes * folds,
          .sent_bytes = both_ways(bytes, core) + bytes * folds,
          .messages = 2 * (levels * core + n - core) / n};
}

ReduceCost tree_cost(std::size_t ranks, double bytes) {
  const double n = static_cast<double>(ranks);
  const auto levels = static_cast<double>(ceil_log2(ranks));
  return {.rounds = 2 * levels,
          .critical_bytes = 2 * bytes * levels,
          .sent_bytes = bytes * levels,
          .messages = 2 * (n - 1) / n};
}

ReduceCost butterfly_cost(std::size_t ranks, double bytes) {
  const double n = static_cast<double>(ranks);
  const auto levels = static_cast<double>(floor_log2(ranks));
  const auto core = static_cast<double>(std::size_t{1} << floor_log2(ranks));
  const double folds = core < n ? 1 : 0;
  const double messages = (levels * core + 2 * (n - core)) / n;
  return {.rounds = levels + 2 * folds,
          .critical_bytes = bytes * (levels + 2 * folds),
          .sent_bytes = bytes * (levels + folds),
          .messages = messages,
          .mean_bytes = bytes * messages};
}

/// The properties of one algorithm.
struct Row {
  ReduceAlgorithm algorithm;
  std::string_view name;
  void (*plan)(Plan&, std::size_t ranks, std::size_t rank, std::size_t elements);
  /// Computes the cost of a sum. The caller fills in the phases of the result, and also
  /// `mean_bytes` if it is 0.
  ReduceCost (*cost)(std::size_t ranks, double bytes);
  /// True if the messages within each half of the rounds do not wait for each other.
  bool has_two_phases;
  double byte_factor;
  /// Processor time for each byte of a message, at both ends together, through sockets.
  /// `memory_byte_s` is the same through shared memory. Both were fitted to measurements with 2, 4
  /// and 8 peers on two processors. They are a compromise between two kinds of processor, which
  /// differ more from each other than the algorithms do.
  double socket_byte_s;
  double memory_byte_s;
  /// The largest number of ranks for this algorithm. It is limited because peers hold a limited
  /// number of connections.
  std::size_t ranks_max;
};

constexpr std::size_t any_ranks = std::numeric_limits<std::size_t>::max();

/// Rows in the order of the enumeration.
constexpr std::array table = {
    Row{ReduceAlgorithm::ring, "ring", plan_ring, chunk_cost, false, 1, 0.295e-9, 0.20e-9,
        any_ranks},
    Row{ReduceAlgorithm::halving_doubling, "halving_doubling", plan_halving_doubling,
        halving_doubling_cost, false, 1.25, 0.307e-9, 0.12e-9, any_ranks},
    Row{ReduceAlgorithm::tree, "tree", plan_tree, tree_cost, false, 1, 0.27e-9, 0.125e-9,
        any_ranks},
    Row{ReduceAlgorithm::direct, "direct", plan_direct, chunk_cost, true, 1.35, 0.38e-9, 0.10e-9,
        direct_ranks_max},
    Row{ReduceAlgorithm::butterfly, "butterfly", plan_butterfly, butterfly_cost, false, 1.35,
        0.36e-9, 0.18e-9, any_ranks},
};

constexpr auto all_algorithms = [] {
  std::array<ReduceAlgorithm, table.size()> all{};
  for (std::size_t i = 0; i < table.size(); ++i) all[i] = table[i].algorithm;
  return all;
}();

const Row& row_of(ReduceAlgorithm algorithm) {
  return table.at(static_cast<std::size_t>(algorithm));
}

}  // namespace

std::span<const ReduceAlgorithm> reduce_algorithms() { return all_algorithms; }

std::string_view to_string(ReduceAlgorithm algorithm) { return row_of(algorithm).name; }

std::optional<ReduceAlgorithm> algorithm_named(std::string_view name) {
  for (const Row& row : table) {
    if (row.name == name) return row.algorithm;
  }
  return std::nullopt;
}

std::string algorithm_names() {
  std::string names = "auto";
  for (const Row& row : table) {
    names.append(&row == &table.back() ? " or " : ", ").append(row.name);
  }
  return names;
}

std::vector<ReduceStep> reduce_plan(ReduceAlgorithm algorithm, std::size_t ranks, std::size_t rank,
                                    std::size_t elements) {
  check(rank < ranks, "a rank is one of the ranks");
  Plan plan;
  row_of(algorithm).plan(plan, ranks, rank, elements);
  return plan.steps;
}

std::vector<ReduceStep> gather_plan(const std::vector<Range>& parts, std::size_t rank) {
  const std::size_t ranks = parts.size();
  check(rank < ranks, "a rank is one of the ranks");
  Plan plan;
  for (std::size_t t = 0; t + 1 < ranks; ++t) {
    plan.append(Kind::send, (rank + 1) % ranks, parts[(rank + ranks - t) % ranks], t);
    plan.append(Kind::copy, (rank + ranks - 1) % ranks, parts[(rank + ranks - 1 - t) % ranks], t);
  }
  return plan.steps;
}

std::vector<ReduceStep> deal_plan(const std::vector<Range>& parts, std::size_t rank) {
  check(rank < parts.size(), "a rank is one of the ranks");
  Plan plan;
  if (rank > 0) plan.append(Kind::copy, 0, parts[rank], 0);
  for (std::size_t to = 1; rank == 0 && to < parts.size(); ++to) {
    plan.append(Kind::send, to, parts[to], 0);
  }
  return plan.steps;
}

ReduceCost reduce_cost(ReduceAlgorithm algorithm, std::size_t ranks, std::size_t elements) {
  check(ranks > 0, "somebody reduces");
  if (ranks == 1 || elements == 0) return {};
  const Row& row = row_of(algorithm);
  const double bytes = 4.0 * static_cast<double>(elements);
  ReduceCost cost = row.cost(ranks, bytes);
  cost.phases = row.has_two_phases ? 2 : cost.rounds;
  if (cost.mean_bytes == 0) cost.mean_bytes = both_ways(bytes, static_cast<double>(ranks));
  return cost;
}

std::size_t phase_of(ReduceAlgorithm algorithm, std::size_t ranks, std::size_t round) {
  if (!row_of(algorithm).has_two_phases) return round;
  return round + 1 < ranks ? 0 : 1;
}

double byte_factor(ReduceAlgorithm algorithm) { return row_of(algorithm).byte_factor; }

bool fits(ReduceAlgorithm algorithm, std::size_t ranks) {
  return ranks <= row_of(algorithm).ranks_max;
}

double message_work_s(const ReduceSite& site) { return site.is_one_host ? 6e-6 : 25e-6; }

double processor_seconds(ReduceAlgorithm algorithm, std::size_t ranks, std::size_t elements,
                         const ReduceSite& site) {
  if (site.peers_per_processor <= 1) return 0;
  const ReduceCost cost = reduce_cost(algorithm, ranks, elements);
  const Row& row = row_of(algorithm);
  const double byte_s = site.shares_memory ? row.memory_byte_s : row.socket_byte_s;
  return site.peers_per_processor *
         (cost.messages * message_work_s(site) + cost.mean_bytes * byte_s);
}

double predicted_seconds(ReduceAlgorithm algorithm, std::size_t ranks, std::size_t elements,
                         const ReduceSite& site) {
  const ReduceCost cost = reduce_cost(algorithm, ranks, elements);
  const double on_links = cost.phases * site.link.latency_s +
                          (cost.rounds - cost.phases) * message_work_s(site) +
                          cost.critical_bytes * byte_factor(algorithm) * site.link.seconds_per_byte;
  return std::max(on_links, processor_seconds(algorithm, ranks, elements, site));
}

ReduceAlgorithm fastest(std::size_t ranks, std::size_t elements, const ReduceSite& site) {
  return *std::ranges::min_element(reduce_algorithms(), {}, [&](ReduceAlgorithm algorithm) {
    if (!fits(algorithm, ranks)) return std::numeric_limits<double>::infinity();
    return predicted_seconds(algorithm, ranks, elements, site);
  });
}

}  // namespace gv
