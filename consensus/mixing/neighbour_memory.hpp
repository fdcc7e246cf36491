// The references that neighbours keep of each other where messages are differences to these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "base/ids.hpp"
#include "consensus/mixing/mix_message.hpp"
#include "consensus/mixing/mix_rule.hpp"

namespace gv {

/// One peer's side. Every peer has a reference, of which each neighbour has a copy. Each message
/// adds the same decoded difference to the reference and to its copies, so that all stay equal to
/// the bit. Fingerprints travel with every message and show whether they are equal.
///
/// A generation opens with one round without differences. A peer sends a hello to a neighbour whose
/// copy it has: the fingerprints of that copy and of its own reference. It sends its whole
/// reference to the others. Then both ends of an edge have right copies, and the edge counts from
/// that round on (`shared`). If a copy was wrong, the whole reference is sent in the next round,
/// and the edge counts from then on. A copy that goes wrong later is dropped, reported as lacking,
/// and sent whole again. Pure; `Real` is float or double.
template <class Real>
class NeighbourMemory {
 public:
  using Vector = std::vector<Real>;

  /// From now on peers have ranks by this order, and `neighbours` are the only peers whose copies
  /// are kept. Their copies of the last generation stay.
  void begin_generation(std::span<const PeerId> order, std::span<const std::size_t> neighbours);
  /// Drops our reference and all copies, because our model was replaced by another peer's.
  void forget();

  /// Our reference; empty until there is one.
  Vector& own() { return own_; }
  const Vector& own() const { return own_; }
  /// Adds the decoded difference of our next message to our reference.
  void add(std::span<const Real> difference);
  /// Undoes the last add(), because the message was not sent to any peer.
  void take_back();

  /// The beginning of a message, before its values are written.
  struct Head {
    std::vector<std::size_t> to;
    MixHeader header;
    MixKnowledge knowledge;
  };
  /// How the messages of a round begin; own() must already be what the neighbours' copies will be
  /// after it. `opens`: it is the first round of a generation.
  std::vector<Head> heads(bool opens);

  /// Updates the copy of a neighbour with its message, which may be one of the last generation that
  /// is no longer mixed. False if it is unusable: damaged, or a difference without a copy.
  bool take(std::size_t from, const MixContent<Real>& content);
  /// Ends a round: drops the copies of neighbours whose message did not come.
  void end_round();

  /// Our copy of a neighbour that also has a right copy of us; null: the edge does not count.
  const Vector* shared(std::size_t neighbour) const;

 private:
  struct Neighbour {
    Vector copy;            ///< Our copy of its reference; empty: there is none.
    bool knows_us = false;  ///< It has a right copy of our reference.
    bool is_sent = false;   ///< It is sent our whole reference in this round.
    bool is_heard = false;  ///< Its message of this round came, and our copy of it is right.
  };

  Vector own_;
  Vector before_;  ///< Our reference before the last difference; empty once that was sent.
  std::uint64_t fingerprint_ = 0;  ///< Of our reference when heads() was last called.
  std::vector<PeerId> order_;
  std::map<std::size_t, Neighbour> neighbours_;  ///< By rank.
};

extern template class NeighbourMemory<float>;
extern template class NeighbourMemory<double>;

}  // namespace gv
