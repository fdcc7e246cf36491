// The kinds of topology, and pure functions that give the mixing weights of each round.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/names.hpp"
#include "base/problems.hpp"

namespace gv {

/// The kinds of topology. A round replaces every model with a weighted mean of some models: x_i <-
/// sum_j W_ij x_j. Undirected graphs have Metropolis weights (Xiao, Boyd and Lall 2005): W_ij = 1 /
/// (1 + max(degrees)), and W_ii makes each row sum to 1.
///
/// | kind                 | others in a round    | rounds     | exact after              |
/// |----------------------|----------------------|------------|--------------------------|
/// | complete             | n - 1                | alike      | 1                        |
/// | matching             | 1                    | drawn      | never (n = 2: 1)         |
/// | ring                 | 2                    | alike      | never                    |
/// | torus                | 4                    | alike      | never                    |
/// | star                 | n - 1 at the centre  | alike      | never                    |
/// | tree                 | 3                    | alike      | never                    |
/// | hypercube            | lg n                 | alike      | never                    |
/// | exponential          | ceil(lg n), directed | alike      | never                    |
/// | random_regular       | degree               | alike      | never                    |
/// | one_peer_exponential | 1, directed          | ceil(lg n) | lg n if that is whole    |
/// | base_k               | at most k            | see base_k | all of them, any n       |
/// | moshpit              | those of one line    | dimensions | all, if the grid is full |
/// | hosts                | those of one host    | see hosts  | all, if on two hosts     |
///
/// "Never" does not hold for the smallest numbers of peers, for which a graph is complete.
enum class TopologyKind : std::uint8_t {
  complete,        ///< Every rank mixes with every other, with weight 1/n each.
  matching,        ///< Pairs drawn independently in every round.
  ring,            ///< Each rank mixes with the ranks before and after it.
  torus,           ///< A grid of a x b = n, as square as possible, with opposite ends joined.
  star,            ///< All ranks mix with rank 0.
  tree,            ///< A binary tree: rank i mixes with rank (i - 1) / 2.
  hypercube,       ///< Ranks mix if they differ in one bit. n must be a power of two.
  exponential,     ///< Rank i takes the models of i + 1, i + 2, i + 4, ... (Ying 2021).
  random_regular,  ///< A graph drawn once, in which all ranks have the same number of neighbours.
  one_peer_exponential,  ///< Rank i takes the model of i - 2^(t mod ceil(lg n)) (Assran 2019).
  base_k,                ///< The Base-(k+1) graph (Takezawa 2023).
  moshpit,  ///< A grid in which all lines along one axis average in a round (Ryabinin 2021).
  hosts,    ///< All peers of a host average, and sometimes pairs of hosts do. See hosts_round().
};

/// The names used in configs.
inline constexpr auto topology_names = names_of<TopologyKind>(
    {"complete", "matching", "ring", "torus", "star", "tree", "hypercube", "exponential",
     "random_regular", "one_peer_exponential", "base_k", "moshpit", "hosts"});
inline constexpr auto topology_kinds = topology_names.kinds();
constexpr std::string_view to_string(TopologyKind kind) { return topology_names[kind]; }

/// How peers find the partner of an exchange.
enum class PairingKind {
  matching,  ///< A random perfect matching in each round, the same at all peers with the same view.
  uniform,   ///< Each peer draws its own partner, as in AD-PSGD and Gossiping SGD.
};

/// A topology's kind and parameters.
struct Topology {
  TopologyKind kind = TopologyKind::complete;
  /// random_regular: the number of neighbours of each rank. 0 means 4, or all others if there are
  /// fewer than 4. base_k: k, the largest number of partners in one round. 0 means 1.
  std::size_t degree = 0;
  /// moshpit: the number d of axes of the grid. The grid's side is the d-th root of n, rounded up.
  std::size_t dimensions = 2;
  /// Replaces the weights W with (I + W) / 2, which has no negative eigenvalue but half the
  /// spectral gap.
  bool lazy = false;
  /// hosts: the number of rounds from one round between hosts to the next.
  std::uint32_t hosts_every = 16;

  friend bool operator==(const Topology&, const Topology&) = default;
};

/// Why `n` >= 1 peers cannot have this topology, and what to use instead; nullopt if they can.
std::optional<Problem> problem_of(const Topology& topology, std::size_t n);

/// The weight that one peer gives another's model in a round.
struct Share {
  std::size_t from = 0;  ///< Rank of the other peer, 0 to n - 1.
  double weight = 0;

  friend bool operator==(const Share&, const Share&) = default;
};

/// The weights of one round. Row i holds the weights that rank i gives other ranks, sorted by rank.
/// The weight of its own model makes the row sum to 1. If a round is computed as x_i + sum_j w_ij
/// (x_j - x_i), equal models stay equal bit for bit.
using Mixing = std::vector<std::vector<Share>>;

/// The weight that a rank gives its own model.
double own_share(const Mixing& round, std::size_t rank);

/// Number of rounds after which the sequence of rounds repeats: 1 if all rounds are equal, 0 if it
/// never repeats (matching). For `hosts`, the result holds for even_hosts().
std::size_t period_of(const Topology& topology, std::size_t n);

/// True if W_ij = W_ji in every round.
bool is_symmetric(const Topology& topology, std::size_t n);

/// The weights of round `round` for n peers, which are ranked by their ids. Only matching,
/// random_regular and hosts use the seed. The topology must fit n (see problem_of). `hosts` has the
/// number of each rank's host, from host_numbers(). If it is empty, even_hosts() is assumed.
Mixing mixing_of(const Topology& topology, std::size_t n, std::uint64_t seed, std::uint64_t round,
                 std::span<const std::size_t> hosts = {});

/// Properties of a topology that can be computed without its matrices. The matrices of all kinds
/// are doubly stochastic: every row and every column sums to 1, so a round does not change the mean
/// of the models.
struct Traits {
  bool symmetric = true;  ///< W_ij = W_ji in every round.
  /// The largest number of other ranks whose models one rank takes in a round.
  std::size_t degree = 0;
  /// Number of rounds, starting at any multiple of the period, that give every peer the exact mean;
  /// 0 means never.
  std::size_t exact_after;
};
Traits traits_of(const Topology& topology, std::size_t n);

}  // namespace gv
