// What peers know of each other where messages are differences to that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "base/ids.hpp"
#include "consensus/mixing/mix_message.hpp"

namespace gv {

/// One peer's side. Everybody has a reference, which is what its neighbours know of it: each
/// message adds the same decoded difference to it and to their copies, so that all stay equal to
/// the bit. Fingerprints travel with every message and say whether they are.
///
/// A generation opens with one round without differences. To a neighbour of which it has a copy a
/// peer says hello: the fingerprints of that copy and of its own reference. To others it sends its
/// reference whole. So both ends of an edge know the same of both directions, and the edge counts
/// from there on (`shared`); where a copy was wrong, from the next round on, with which it is sent
/// whole. A copy that goes wrong later is dropped, said to be lacking, and sent whole again.
/// Pure; `Real` is float or double.
template <class Real>
class NeighbourMemory {
 public:
  using Vector = std::vector<Real>;

  /// Peers have ranks by this order from here on, and these are our neighbours: of no other is
  /// anything remembered. The last generation's copies go on, by peer.
  void begin_generation(std::span<const PeerId> order, std::span<const std::size_t> neighbours);
  /// Our model is another's now, and nobody knows anything of us nor we of them.
  void forget();

  /// Our reference; empty until there is one.
  const Vector& own() const { return own_; }
  void set_own(std::span<const Real> values);
  /// A difference is in the next message of all who know us.
  void add(std::span<const Real> difference);
  /// The last difference was sent to nobody.
  void take_back();

  /// Some peers' message of a round, still without values.
  struct Letter {
    std::vector<std::size_t> to;
    MixHeader header;
    MixKnowledge knowledge;
  };
  /// Who is sent what, with `own()` as it is to be known then.
  std::vector<Letter> letters(bool opens);

  /// What a neighbour's message says, also one of the last generation's that nobody mixes any more.
  /// False if it is of no use: damaged, or nothing is there that it could be added to.
  bool take(std::size_t from, const MixLetter<Real>& letter);
  /// All that comes in a round has come: copies that lack something are dropped.
  void end_round();

  /// The copy of a neighbour that has the right one of us; null: the edge does not count.
  const Vector* shared(std::size_t neighbour) const;

 private:
  struct Neighbour {
    Vector copy;            ///< Empty: there is none.
    bool knows_us = false;  ///< It has our reference.
    bool is_sent = false;   ///< It is sent it whole in this round,
    bool is_heard = false;  ///< and something came of it.
  };

  Vector own_;
  Vector before_;  ///< The last difference: our reference without it. Empty: it was sent.
  std::uint64_t fingerprint_ = 0;  ///< Of our reference in the last letters.
  std::vector<PeerId> order_;
  std::map<std::size_t, Neighbour> neighbours_;  ///< By rank.
};

extern template class NeighbourMemory<float>;
extern template class NeighbourMemory<double>;

}  // namespace gv
