// Draws the allowed neighbours as a ring with shortcuts.
#include "sim/virtual/neighbours.hpp"

#include <set>

namespace gv {

std::vector<std::vector<PeerId>> draw_neighbours(std::size_t peers, std::size_t wanted, Rng draws) {
  const auto id = [](std::size_t number) { return PeerId{number + 1}; };
  if (wanted == 0 || wanted >= peers) {
    std::vector<PeerId> everybody;
    for (std::size_t number = 0; number < peers; ++number) everybody.push_back(id(number));
    return std::vector<std::vector<PeerId>>(peers, everybody);
  }
  std::vector<std::set<PeerId>> met(peers);
  const auto join = [&](std::size_t a, std::size_t b) {
    met[a].insert(id(b));
    met[b].insert(id(a));
  };
  for (std::size_t number = 0; number < peers; ++number) join(number, (number + 1) % peers);
  for (std::size_t number = 0; number < peers; ++number) {
    for (std::size_t tries = 0; met[number].size() < wanted && tries < 4 * wanted; ++tries) {
      const std::size_t other = draws.below(peers);
      if (other != number && met[other].size() < wanted) join(number, other);
    }
  }
  std::vector<std::vector<PeerId>> lists;
  for (const std::set<PeerId>& others : met) lists.emplace_back(others.begin(), others.end());
  return lists;
}

}  // namespace gv
