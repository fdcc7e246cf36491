// The pair exchange: two peers swap snapshots and each adds half of one antisymmetric force.
#pragma once

#include <cstdint>
#include <memory>

#include "consensus/base/rng.hpp"
#include "consensus/base/time.hpp"
#include "consensus/effects.hpp"
#include "consensus/exchange/codec.hpp"

namespace gv {

/// One peer's side of every pair exchange: at most one at a time, as initiator or as responder, so no
/// waiting cycle can form. Both sides compute d = alpha * c * (dec(s_other) - dec(s_self)) from the
/// decoded values of both snapshots with the same clip factor c, so what one gains the other gives.
/// The initiator decides: it commits when it holds the whole answer and the responder's Ready; the
/// responder commits on the word, asks for it when it stays away, and drops it when the initiator is
/// gone (counted as undecided). Bytes per exchange: one encoded model each way, five small messages.
class PairExchange {
 public:
  struct Options {
    std::uint64_t layout_hash = 0;
    std::uint64_t elements = 0;
    Codec codec = Codec::identity;
    float clip_radius = 0;           ///< Self-centred clipping (He et al. 2022); 0 = off.
    float norm_cap = 0;              ///< Refuse a snapshot whose norm exceeds this; 0 = off.
    Duration answer_deadline = std::chrono::seconds(2);    ///< Offer to Accept or Refuse.
    Duration progress_deadline = std::chrono::seconds(5);  ///< Between two blocks, and for the word.
    Duration quarantine = std::chrono::minutes(5);
    int offences_max = 3;            ///< Unsound models before a peer is quarantined.
  };

  /// Totals since the start; `initiated` = committed + refused + aborted + (1 if in flight).
  struct Counts {
    std::uint64_t initiated = 0;
    std::uint64_t committed = 0;      ///< As initiator or responder.
    std::uint64_t refused = 0;        ///< Our offers the partner refused.
    std::uint64_t refusals = 0;       ///< Offers of others we refused.
    std::uint64_t aborted = 0;
    std::uint64_t undecided = 0;      ///< Dropped as responder without the word: maybe half applied.
  };

  PairExchange(PeerId self, std::uint64_t session, Options options);
  ~PairExchange();

  /// What this peer answers with from now on, and the coefficient it consents to. Forces committed
  /// since it was taken are included by the exchange itself, so no difference is counted twice.
  void set_snapshot(SnapshotPtr snapshot, float alpha);

  /// Offers the current snapshot to `partner`. Returns false (and does nothing) when an exchange is in
  /// flight, there is no snapshot, or the partner is quarantined.
  bool start(Time now, PeerId partner, std::uint64_t round, Effects& out);

  void receive(Time now, PeerId from, const Message& message, Effects& out);
  void receive_block(Time now, PeerId from, const Block& block, Effects& out);

  /// The bulk lane to `peer` broke: what was in flight on it is asked for again or given up.
  void lane_lost(Time now, PeerId peer, Effects& out);
  /// No lane to `peer` can be opened: gives the exchange with it up.
  void lane_refused(Time now, PeerId peer, Effects& out);
  /// `peer` is dead or has left.
  void peer_gone(Time now, PeerId peer, Effects& out);

  void tick(Time now, Effects& out);
  Time deadline() const;

  bool in_flight() const;
  const Counts& counts() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gv
