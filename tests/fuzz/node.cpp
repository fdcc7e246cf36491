// The target `node`: everything that a peer on the list, or the holder of a stolen key, can send to
// a peer in each mode.
#include <algorithm>

#include "tests/fuzz/conversation.hpp"
#include "tests/fuzz/target.hpp"

namespace gv::fuzz {
namespace {

void feed(std::span<const std::byte> bytes) {
  const Script script = script_of(bytes);
  LonePeer peer(peer_kinds()[script.kind % peer_kinds().size()], 0);
  for (const Step& step : script.steps) {
    if (peer.is_over()) break;
    peer.apply(step);
  }
}

/// Recorded conversations of several lengths, so that the fuzzer starts from early and late states.
std::vector<Bytes> seeds() {
  std::vector<Bytes> found;
  for (std::size_t kind = 0; kind < peer_kinds().size(); ++kind) {
    for (const std::size_t steps : {30, 90, 200}) {
      found.push_back(to_bytes(converse(kind, steps).script));
    }
  }
  return found;
}

}  // namespace

Target node_target() {
  return {.name = "node",
          .feed = feed,
          .seeds = seeds,
          .bytes_max = 1 << 18,
          .mutated = mutated_script};
}

}  // namespace gv::fuzz
