// The copies that neighbours keep of each other's references when messages are differences.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "base/fields.hpp"
#include "base/ids.hpp"
#include "consensus/mixing/mix_message.hpp"
#include "consensus/mixing/mix_rule.hpp"

namespace gv {

/// One peer's memory. Every peer has a reference, and each neighbour has a copy of it. Each message
/// adds the same decoded difference to the reference and to its copies, so that all stay equal bit
/// for bit. Fingerprints in every message show whether they are equal.
///
/// A generation opens with one round without differences. If a peer has a copy of a neighbour's
/// reference, it sends that neighbour a hello with the fingerprints of the copy and of its own
/// reference. Otherwise it sends the neighbour its whole reference. After that, both ends of an
/// edge have correct copies, and the edge is used for mixing (see shared()). If a hello shows that
/// a copy was wrong, the whole reference is sent in the next round, and the edge is used from then
/// on. A copy that goes wrong later is dropped and reported as missing, and the whole reference is
/// sent again. Pure; `Real` is float or double.
template <class Real>
class NeighbourMemory {
 public:
  using Vector = std::vector<Real>;

  /// `order` lists the peers by rank, and `neighbours` holds the ranks of our neighbours. A copy
  /// from the last generation is kept if its peer is still a neighbour, and dropped otherwise.
  void begin_generation(std::span<const PeerId> order, std::span<const std::size_t> neighbours);
  /// Drops our reference and all copies, because another peer's model replaced ours.
  void forget();

  /// Our reference. Empty until it is set.
  Vector& own() { return own_; }
  const Vector& own() const { return own_; }
  /// Adds the decoded difference of our next message to our reference.
  void add(std::span<const Real> difference);
  /// Undoes the last add(), because the message reached no peer.
  void take_back();

  /// The receivers of a message, and the part of it that precedes the values.
  struct Head {
    std::vector<std::size_t> to;
    MixHeader header;
    MixKnowledge knowledge;
  };
  /// The heads of this round's messages. own() must already include this round's difference.
  /// `opens` is true in the first round of a generation.
  std::vector<Head> heads(bool opens);

  /// Updates our copy of a neighbour's reference with the neighbour's message. The message may be
  /// from a round that will not be mixed. Returns false if the message is unusable: damaged, or a
  /// difference without a copy to add it to.
  bool take(std::size_t from, const MixContent<Real>& content);
  /// Ends a round, and drops our copy of the reference of each neighbour whose message did not
  /// arrive.
  void end_round();

  /// Our copy of a neighbour's reference. Null unless both ends of the edge have correct copies of
  /// each other's references.
  const Vector* shared(std::size_t neighbour) const;

  friend class Fields;
  static constexpr std::size_t field_count = 5;

 private:
  struct Neighbour {
    Vector copy;            ///< Our copy of the neighbour's reference. Empty if there is none.
    bool knows_us = false;  ///< True if the neighbour has a correct copy of our reference.
    bool is_sent = false;   ///< True if we send our whole reference in this round.
    /// True if the neighbour's message of this round arrived and our copy is correct.
    bool is_heard = false;
  };

  Vector own_;
  /// Our reference before the last add(). Empty if that add() can no longer be undone.
  Vector before_;
  std::uint64_t fingerprint_ = 0;  ///< Fingerprint of our reference at the last call of heads().
  std::vector<PeerId> order_;
  std::map<std::size_t, Neighbour> neighbours_;  ///< The neighbours by rank.
};

extern template class NeighbourMemory<float>;
extern template class NeighbourMemory<double>;

}  // namespace gv
