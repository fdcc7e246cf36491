// Lists the edges of each kind of graph. Makes random regular graphs by swapping the ends of edges.
#include "consensus/topology/graphs.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include "base/check.hpp"
#include "base/rng.hpp"

namespace gv {
namespace {

constexpr std::size_t regular_degree_default = 4;

/// A sorted set of edges. join() ignores repeated edges and edges from a rank to itself.
class EdgeSet {
 public:
  void join(std::size_t a, std::size_t b) {
    if (a != b) edges_.insert({std::min(a, b), std::max(a, b)});
  }
  std::vector<Edge> list() const { return {edges_.begin(), edges_.end()}; }

 private:
  std::set<Edge> edges_;
};

std::vector<Edge> torus(std::size_t n) {
  const std::size_t rows = torus_rows(n);
  const std::size_t columns = n / rows;
  EdgeSet edges;
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      const std::size_t rank = row * columns + column;
      edges.join(rank, row * columns + (column + 1) % columns);
      edges.join(rank, (row + 1) % rows * columns + column);
    }
  }
  return edges.list();
}

bool is_connected(std::size_t n, const std::set<Edge>& edges) {
  // Union-find: following `first` from a rank leads to the representative of its connected part.
  std::vector<std::size_t> first(n);
  std::iota(first.begin(), first.end(), std::size_t{0});
  const auto part = [&](std::size_t rank) {
    while (first[rank] != rank) rank = first[rank] = first[first[rank]];
    return rank;
  };
  std::size_t parts = n;
  for (const Edge& edge : edges) {
    const std::size_t a = part(edge.low);
    const std::size_t b = part(edge.high);
    if (a == b) continue;
    first[a] = b;
    --parts;
  }
  return parts == 1;
}

/// A random connected graph in which every rank has this degree. Starts from a ring on which ranks
/// at distances 1, 2, ... are joined, and opposite ranks too if the degree is odd. Then tries to
/// swap the ends of two random edges, ten times for each edge. Swaps keep all degrees. Continues in
/// this way until the graph is connected. (With degree 2, the result would usually be several
/// rings, so the ranks of one ring are shuffled instead.)
std::vector<Edge> random_regular(std::size_t n, std::size_t degree, std::uint64_t seed) {
  Rng rng = Rng(seed).fork("random_regular").fork(n).fork(degree);
  EdgeSet start;
  if (degree == 2) {
    std::vector<std::size_t> order(n);
    std::iota(order.begin(), order.end(), std::size_t{0});
    rng.shuffle(std::span(order));
    for (std::size_t i = 0; i < n; ++i) start.join(order[i], order[(i + 1) % n]);
    return start.list();
  }
  for (std::size_t rank = 0; rank < n; ++rank) {
    for (std::size_t far = 1; far <= degree / 2; ++far) start.join(rank, (rank + far) % n);
    if (degree % 2 != 0) start.join(rank, (rank + n / 2) % n);
  }
  std::vector<Edge> list = start.list();
  if (degree + 1 >= n) return list;
  std::set<Edge> edges(list.begin(), list.end());
  do {
    for (std::size_t swaps = 0; swaps < 10 * list.size(); ++swaps) {
      Edge& one = list[rng.below(list.size())];
      Edge& other = list[rng.below(list.size())];
      const bool crossed = rng.chance(0.5);
      const std::size_t c = crossed ? other.high : other.low;
      const std::size_t d = crossed ? other.low : other.high;
      if (one.low == c || one.high == d) continue;
      const Edge left{std::min(one.low, c), std::max(one.low, c)};
      const Edge right{std::min(one.high, d), std::max(one.high, d)};
      if (left == right || edges.contains(left) || edges.contains(right)) continue;
      edges.erase(one);
      edges.erase(other);
      edges.insert(left);
      edges.insert(right);
      one = left;
      other = right;
    }
  } while (!is_connected(n, edges));
  return {edges.begin(), edges.end()};
}

}  // namespace

bool is_graph(TopologyKind kind) {
  return kind != TopologyKind::matching && kind != TopologyKind::one_peer_exponential &&
         kind != TopologyKind::base_k && kind != TopologyKind::moshpit &&
         kind != TopologyKind::hosts;
}

std::size_t regular_degree(const Topology& topology, std::size_t n) {
  return std::min(topology.degree == 0 ? regular_degree_default : topology.degree, n - 1);
}

std::size_t torus_rows(std::size_t n) {
  std::size_t rows = 1;
  for (std::size_t divisor = 2; divisor * divisor <= n; ++divisor) {
    if (n % divisor == 0) rows = divisor;
  }
  return rows;
}

std::vector<Edge> edges_of(const Topology& topology, std::size_t n, std::uint64_t seed) {
  check(is_graph(topology.kind), "rounds that differ are no graph");
  if (topology.kind == TopologyKind::torus) return torus(n);
  if (topology.kind == TopologyKind::random_regular) {
    return random_regular(n, regular_degree(topology, n), seed);
  }
  EdgeSet edges;
  for (std::size_t rank = 0; rank < n; ++rank) {
    switch (topology.kind) {
      case TopologyKind::ring:
        edges.join(rank, (rank + 1) % n);
        break;
      case TopologyKind::star:
        edges.join(0, rank);
        break;
      case TopologyKind::tree:
        if (rank > 0) edges.join(rank, (rank - 1) / 2);
        break;
      case TopologyKind::hypercube:
        for (std::size_t bit = 1; bit < n; bit *= 2) edges.join(rank, rank ^ bit);
        break;
      case TopologyKind::exponential:
        for (std::size_t far = 1; far < n; far *= 2) edges.join(rank, (rank + far) % n);
        break;
      default:
        for (std::size_t other = 0; other < rank; ++other) edges.join(rank, other);
        break;
    }
  }
  return edges.list();
}

Mixing metropolis(std::size_t n, const std::vector<Edge>& edges) {
  std::vector<std::size_t> degrees(n, 0);
  for (const Edge& edge : edges) {
    ++degrees[edge.low];
    ++degrees[edge.high];
  }
  Mixing mixing(n);
  for (const Edge& edge : edges) {
    const std::size_t larger = std::max(degrees[edge.low], degrees[edge.high]);
    const double weight = 1 / static_cast<double>(1 + larger);
    mixing[edge.low].push_back({edge.high, weight});
    mixing[edge.high].push_back({edge.low, weight});
  }
  for (std::vector<Share>& row : mixing) std::ranges::sort(row, {}, &Share::from);
  return mixing;
}

}  // namespace gv
