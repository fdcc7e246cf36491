// The sorted set of live peers and its hash. Topologies and pairings are functions of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.hpp"

namespace gv {

/// A set of peers, as a value. Equal hashes are taken to mean equal sets. The hash is a sum over
/// the members, so inserting or erasing a peer changes one term and needs no pass over all members.
class View {
 public:
  View() = default;

  /// Sorts `peers` and drops duplicates.
  explicit View(std::vector<PeerId> peers);

  /// Inserting a member again or erasing a peer that is not in the set has no effect.
  void insert(PeerId peer);
  void erase(PeerId peer);

  const std::vector<PeerId>& peers() const { return peers_; }
  std::size_t size() const { return peers_.size(); }
  std::uint64_t hash() const { return hash_; }
  bool contains(PeerId peer) const;
  /// The position of a peer in the order of ids; nullopt if the peer is not in the set.
  std::optional<std::size_t> rank_of(PeerId peer) const;

  friend bool operator==(const View&, const View&) = default;
  /// Adds the set to a StateHash.
  void add_to(auto& hash) const { hash.add(hash_); }

 private:
  std::vector<PeerId> peers_;
  std::uint64_t hash_ = 0;
};

}  // namespace gv
