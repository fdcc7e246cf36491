// Names of algorithms, both ways.
#include "consensus/allreduce/reduce_algorithm.hpp"

#include <algorithm>

namespace gv {

std::string_view to_string(ReduceAlgorithm algorithm) {
  switch (algorithm) {
    case ReduceAlgorithm::ring:
      return "ring";
    case ReduceAlgorithm::halving_doubling:
      return "halving-doubling";
    case ReduceAlgorithm::tree:
      return "tree";
    case ReduceAlgorithm::direct:
      return "direct";
  }
  return "unknown";
}

std::optional<ReduceAlgorithm> algorithm_named(std::string name) {
  std::ranges::replace(name, '_', '-');
  for (const ReduceAlgorithm algorithm : reduce_algorithms) {
    if (to_string(algorithm) == name) return algorithm;
  }
  return std::nullopt;
}

}  // namespace gv
