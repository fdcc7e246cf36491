// Groups peers by their hosts, and computes the rounds inside and between hosts.
#include "consensus/topology/hosts.hpp"

#include <algorithm>

#include "base/rng.hpp"
#include "consensus/topology/pairing.hpp"

namespace gv {
namespace {

/// The ranks on each host, by the host's number.
std::vector<std::vector<std::size_t>> ranks_by_host(std::span<const std::size_t> hosts) {
  std::vector<std::vector<std::size_t>> ranks;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    if (ranks.size() <= hosts[rank]) ranks.resize(hosts[rank] + 1);
    ranks[hosts[rank]].push_back(rank);
  }
  return ranks;
}

void average_inside(const std::vector<std::size_t>& host, Mixing& mixing) {
  const double weight = 1 / static_cast<double>(host.size());
  for (const std::size_t rank : host) {
    for (const std::size_t other : host) {
      if (other != rank) mixing[rank].push_back({other, weight});
    }
  }
}

void average_between(const std::vector<std::size_t>& one, const std::vector<std::size_t>& other,
                     Mixing& mixing) {
  const auto& [few, many] =
      std::minmax(one, other, [](const auto& a, const auto& b) { return a.size() < b.size(); });
  const double weight =
      static_cast<double>(few.size()) / static_cast<double>(few.size() + many.size());
  for (std::size_t i = 0; i < many.size(); ++i) {
    const std::size_t partner = few[i % few.size()];
    mixing[many[i]].push_back({partner, weight});
    mixing[partner].push_back({many[i], weight});
  }
}

}  // namespace

std::uint64_t host_key(std::string_view address) {
  const std::string_view host = address.substr(0, address.rfind(':'));
  return host.empty() ? 0 : stable_hash(host);
}

std::vector<std::size_t> host_numbers(std::span<const std::uint64_t> keys) {
  std::vector<std::uint64_t> known;
  std::vector<std::size_t> numbers;
  for (const std::uint64_t key : keys) {
    const auto found = key == 0 ? known.end() : std::ranges::find(known, key);
    numbers.push_back(static_cast<std::size_t>(found - known.begin()));
    if (found == known.end()) known.push_back(key);
  }
  return numbers;
}

std::vector<std::size_t> even_hosts(std::size_t n) {
  std::vector<std::size_t> hosts;
  for (std::size_t rank = 0; rank < n; ++rank) hosts.push_back(2 * rank / n);
  return hosts;
}

Mixing hosts_round(std::span<const std::size_t> hosts, std::size_t every, std::uint64_t seed,
                   std::uint64_t round) {
  const std::vector<std::vector<std::size_t>> ranks = ranks_by_host(hosts);
  Mixing mixing(hosts.size());
  if (ranks.size() > 1 && is_between_hosts(every, round)) {
    const std::vector<std::size_t> order = matching_order(seed, round / every, ranks.size());
    for (std::size_t at = 0; at + 1 < order.size(); at += 2) {
      average_between(ranks[order[at]], ranks[order[at + 1]], mixing);
    }
  } else {
    for (const std::vector<std::size_t>& host : ranks) average_inside(host, mixing);
  }
  for (std::vector<Share>& row : mixing) std::ranges::sort(row, {}, &Share::from);
  return mixing;
}

}  // namespace gv
