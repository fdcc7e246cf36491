// The pair exchange: two peers swap snapshots and each adds half of one antisymmetric force.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/time.hpp"
#include "consensus/codec/codec.hpp"
#include "consensus/message/effects.hpp"

namespace gv {

/// One peer's side of every pair exchange: at most one at a time, as initiator or as responder, so
/// no waiting cycle can form. Both sides compute d = alpha * c * (dec(s_other) - dec(s_self)) from
/// the decoded values of both snapshots with the same clip factor c, so what one gains the other
/// gives.
///
///   initiator: offered -> receiving -> (whole answer and Ready) commit, send Commit
///   responder: receiving -> (whole and sound) send Ready, await the word -> commit
///
/// The initiator decides. The responder asks for a word that stays away and drops the exchange when
/// the initiator is gone or never answers (counted as undecided: the only way half an exchange can
/// be applied). Cost: one encoded model each way at once, five small messages, one vector of
/// floats.
class PairExchange {
 public:
  struct Options {
    std::uint64_t layout_hash = 0;
    std::uint64_t elements = 0;
    Codec codec = Codec::identity;
    float clip_radius = 0;   ///< Fixed radius of the clipping; 0 = see `clip_factor`.
    float clip_factor = 10;  ///< Radius as a multiple of the median of recent distances; 0 = off.
    float norm_cap = 10;     ///< Refuse a model whose norm exceeds ours this many times; 0 = off.
    /// From Offer to Accept or Refuse. An unanswered offer gives way to another exchange sooner:
    /// after twice the time that the partner's last answer took, or an eighth of this at first.
    Duration answer_deadline = std::chrono::seconds(2);
    Duration progress_deadline =
        std::chrono::seconds(5);  ///< Between two blocks, and for the word.
    Duration quarantine = std::chrono::minutes(5);
    int offences_max = 3;  ///< Unsound models before a peer is quarantined.
  };

  /// Totals since the start; `initiated` = ended as initiator + (1 if one is in flight as such).
  struct Counts {
    std::uint64_t initiated = 0;
    std::uint64_t committed = 0;  ///< As initiator or responder.
    std::uint64_t refused = 0;    ///< Our offers the partner refused.
    std::uint64_t refusals = 0;   ///< Offers of others we refused.
    std::uint64_t aborted = 0;    ///< As initiator or responder, without effect on either side.
    std::uint64_t undecided = 0;  ///< Dropped as responder without the word: maybe half applied.
  };

  /// `numbers` is shared with whatever else starts transfers and outlives this.
  PairExchange(PeerId self, TransferNumbers& numbers, Options options);
  ~PairExchange();

  /// What this peer offers and answers with from now on, and the coefficient it consents to.
  /// `since` are forces the snapshot does not contain yet; they and those committed later are added
  /// here before it is used again, so no difference counts twice. Null: every offer is refused as
  /// not ready.
  void set_snapshot(SnapshotPtr snapshot, float alpha, std::span<const Force> since = {});

  /// What is offered at present: the snapshot that was set, or it with later forces added. May be
  /// null.
  const SnapshotPtr& snapshot() const;

  /// Memory for the next snapshot, used again once nobody needs what it held. Its contents are old.
  std::shared_ptr<Snapshot> blank_snapshot();

  /// Whether `partner` has had its share of our time (PartnerTimes).
  bool is_resting(Time now, PeerId partner) const;

  /// Offers the current snapshot to `partner`. Returns false (and starts nothing) when an exchange
  /// is in flight, there is no snapshot, or the partner is quarantined or rests.
  bool start(Time now, PeerId partner, std::uint64_t round, Effects& out);

  /// Handles Offer, Accept, Refuse, Ready, Commit, Query, Abort and Resume; ignores the rest.
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

  /// What is remembered of others and of exchanges that are over: at most 5 entries for each peer
  /// ever met, and 30. Forces that no snapshot contains yet are not counted.
  std::size_t held() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gv
