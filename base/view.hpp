// The sorted set of live peers, with its hash: what topologies and pairings are functions of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.hpp"

namespace gv {

/// A value. Two peers with equal hashes hold equal sets: the hash is a sum over the members, so a
/// change costs one member's share and not a walk over all.
class View {
 public:
  View() = default;

  /// Sorts `peers` and drops duplicates.
  explicit View(std::vector<PeerId> peers);

  /// Harmless when it is in the set already, or not in it.
  void insert(PeerId peer);
  void erase(PeerId peer);

  const std::vector<PeerId>& peers() const { return peers_; }
  std::size_t size() const { return peers_.size(); }
  std::uint64_t hash() const { return hash_; }
  bool contains(PeerId peer) const;
  /// The place of a peer among all, by id; empty if it is not one of them.
  std::optional<std::size_t> rank_of(PeerId peer) const;

  friend bool operator==(const View&, const View&) = default;

 private:
  std::vector<PeerId> peers_;
  std::uint64_t hash_ = 0;
};

}  // namespace gv
