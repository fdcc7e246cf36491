// The two levels of topology `hosts`: all peers of a host average, and sometimes pairs of hosts do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "consensus/topology/topology.hpp"

namespace gv {

/// Names the host in an address, which is the part before the last colon; 0 if that is empty.
std::uint64_t host_key(std::string_view address);

/// For each peer the number of its host, counted in the order in which hosts first occur. Peers
/// are on one host if their keys are equal. A peer with key 0 counts as a host of its own.
std::vector<std::size_t> host_numbers(std::span<const std::uint64_t> keys);

/// The assumed hosts of n peers without information: one for each half of the ranks.
std::vector<std::size_t> even_hosts(std::size_t n);

/// One round, in which rank i is on host `hosts[i]`. In most rounds each host takes the mean of its
/// peers. Once in `every` (at least 3) rounds the hosts are paired by a matching drawn from the
/// seed. Two hosts of a and b peers, a >= b, then have a links between them, from each peer of the
/// larger host to the peers of the smaller one in turn, each of weight b / (a + b). If the peers of
/// each host are equal, as they are after a round within hosts, the mean of both hosts becomes that
/// of all a + b peers, and the next round within hosts gives it to all of them. All rounds are
/// symmetric and doubly stochastic.
Mixing hosts_round(std::span<const std::size_t> hosts, std::size_t every, std::uint64_t seed,
                   std::uint64_t round);

/// The fewest rounds from one round between hosts to the next.
inline constexpr std::size_t hosts_every_min = 3;

/// True if round `round` of topology `hosts` is one between hosts.
constexpr bool is_between_hosts(std::size_t every, std::uint64_t round) {
  return (round + 2) % every == 0;
}

}  // namespace gv
