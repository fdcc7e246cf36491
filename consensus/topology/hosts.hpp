// The two levels of topology `hosts`: all peers of a host average, and sometimes pairs of hosts do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "consensus/topology/topology.hpp"

namespace gv {

/// A key for the host in an address, which is the part before the last colon; 0 if that part is
/// empty.
std::uint64_t host_key(std::string_view address);

/// For each peer, the number of its host. Hosts are numbered in the order in which they first
/// occur. Peers with equal keys are on the same host, but a peer with key 0 counts as a host of its
/// own.
std::vector<std::size_t> host_numbers(std::span<const std::uint64_t> keys);

/// The assumed hosts of n peers without information: one for each half of the ranks.
std::vector<std::size_t> even_hosts(std::size_t n);

/// The weights of one round, in which rank i is on host `hosts[i]`. In most rounds, the peers of
/// each host take their mean. Once in `every` (at least 3) rounds, a matching drawn from the seed
/// pairs the hosts. Two hosts with A and B peers, where A >= B, are then joined by A links, each of
/// weight B / (A + B). The links go from each peer of the larger host to the peers of the smaller
/// one in turn. If the models on each host are equal, as they are after a round within hosts, the
/// mean on each of the two hosts becomes the mean of all A + B peers. The next round within hosts
/// then gives this mean to every peer. All rounds are symmetric and doubly stochastic.
Mixing hosts_round(std::span<const std::size_t> hosts, std::size_t every, std::uint64_t seed,
                   std::uint64_t round);

/// The fewest rounds from one round between hosts to the next.
inline constexpr std::size_t hosts_every_min = 3;

/// True if round `round` of topology `hosts` is one between hosts.
constexpr bool is_between_hosts(std::size_t every, std::uint64_t round) {
  return (round + 2) % every == 0;
}

}  // namespace gv
