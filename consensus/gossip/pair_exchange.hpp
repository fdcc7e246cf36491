// The pair exchange: two peers swap snapshots and add opposite forces to their models.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/boxed.hpp"
#include "base/time.hpp"
#include "consensus/codec/codec.hpp"
#include "consensus/message/effects.hpp"

namespace gv {

class StateHash;

/// One peer's side of every pair exchange. A peer is in at most one at a time, as initiator or as
/// responder, so no waiting cycle can form. Both sides compute
/// d = alpha * c * (dec(s_other) - dec(s_self)) from the decoded values of both snapshots with the
/// same clip factor c, so one side gains exactly what the other gives.
///
///   initiator: offered -> receiving -> (whole answer and Ready) commit, send Commit
///   responder: receiving -> (whole and sound) send Ready, await Commit -> commit
///
/// The initiator decides. The responder asks again for a missing Commit, and drops the exchange
/// when the initiator is gone or never answers, or when the run ends. That is counted as undecided,
/// and is the only way in which half an exchange can be applied. Cost: one encoded model each way
/// at once, five small messages, one vector of floats.
class PairExchange {
 public:
  /// Recent distances that set the adaptive radius.
  static constexpr std::size_t distances_max = 15;

  struct Options {
    std::uint64_t layout_hash = 0;
    std::uint64_t elements = 0;
    /// One of exchange_codecs. A codec without a fixed width needs a memory: see PairMemories.
    Codec codec;
    float clip_radius = 0;  ///< Fixed clip radius; 0: see `clip_factor`.
    /// Radius as a multiple of the median of recent distances, of which each partner counts once if
    /// there are three or more; 0: off.
    float clip_factor = 10;
    float norm_cap = 10;  ///< Refuse a model whose norm is above this many times ours; 0: off.
    /// Time from Offer to Accept or Refuse. An unanswered offer yields to another exchange sooner:
    /// after twice the time of the partner's last answer, or at first after an eighth of this.
    Duration answer_deadline = std::chrono::seconds(2);
    /// Time between two blocks, and until Commit. After that the responder asks for Commit, each
    /// time for as long as an offer waits for its answer.
    Duration progress_deadline = std::chrono::seconds(5);
    std::size_t block_least = block_bytes_usual;  ///< Smallest size of a block other than a
                                                  ///< transfer's last.
    Duration quarantine = std::chrono::minutes(5);
    int offences_max = 3;  ///< Unsound models before a peer is quarantined.
  };

  /// Totals since the start; `initiated` = ended as initiator + (1 if one is under way as
  /// initiator).
  struct Counts {
    std::uint64_t initiated = 0;
    std::uint64_t committed = 0;  ///< As initiator or responder.
    std::uint64_t refused = 0;    ///< Our offers that the partner refused.
    std::uint64_t refusals = 0;   ///< Offers of others that we refused.
    std::uint64_t aborted = 0;    ///< As initiator or responder, without effect on either side.
    std::uint64_t undecided = 0;  ///< Dropped as responder without Commit, so possibly half
                                  ///< applied.
  };

  /// `session` as in exchange_id().
  PairExchange(PeerId self, std::uint64_t session, Options options);
  PairExchange(const PairExchange& other);
  PairExchange(PairExchange&& other) noexcept;
  PairExchange& operator=(const PairExchange& other);
  PairExchange& operator=(PairExchange&& other) noexcept;
  ~PairExchange();
  bool operator==(const PairExchange& other) const;
  void add_to(StateHash& hash) const;

  /// Sets the snapshot that this peer offers and answers with, and the coefficient that it accepts.
  /// `since` are forces that the snapshot does not contain yet. These and later forces are added
  /// before the snapshot is used again, so no difference counts twice. With a null snapshot every
  /// offer is refused as not ready, and the memory for exchanges is freed, because a final mean or
  /// a download needs as much.
  void set_snapshot(SnapshotPtr snapshot, float alpha, std::span<const Force> since = {});

  /// The present snapshot: the one that was set, possibly with later forces added. May be null.
  const SnapshotPtr& snapshot() const;

  /// Memory for the next snapshot, with old contents. It is reused once it has no other holder.
  std::shared_ptr<Snapshot> blank_snapshot();

  /// True if `partner` has had its share of our time for now (see PartnerTimes).
  bool is_resting(Time now, PeerId partner) const;

  /// Offers the current snapshot to `partner`. Returns false (and starts nothing) if an exchange is
  /// under way, there is no snapshot, or the partner is quarantined or resting.
  bool start(Time now, PeerId partner, std::uint64_t round, Effects& out);

  /// Handles Offer, Accept, Refuse, Ready, Commit, Query, Abort and Resume; ignores the rest.
  void receive(Time now, PeerId from, const Message& message, Effects& out);
  void receive_block(Time now, PeerId from, const Block& block, Effects& out);

  /// Call when the bulk lane to `peer` broke: asks again for the missing blocks, or gives up the
  /// exchange.
  void lane_lost(Time now, PeerId peer, Effects& out);
  /// Call when no lane to `peer` can be opened: gives up the exchange with it.
  void lane_refused(Time now, PeerId peer, Effects& out);
  /// Call when `peer` is dead or has left: ends the exchange with it.
  void peer_gone(Time now, PeerId peer, Effects& out);
  /// Call when the run ends. Begins no further exchange, as with a null snapshot, and a responder
  /// that waits for Commit asks for it at once, and then eight times as often as before.
  void stop(Time now, Effects& out);
  /// Ends the exchange under way, if there is one. A responder that has sent Ready does not learn
  /// then whether the other side applies its half.
  void give_up(Effects& out);

  void tick(Time now, Effects& out);
  Time deadline() const;

  /// Forces of exchanges that were committed since the last call, for the live model.
  std::vector<Force> take_forces();
  /// The first peer since the last call whose offer we refused as busy.
  std::optional<PeerId> take_turned_away();

  /// Counts an unsound model of `peer`, as after an exchange. After `offences_max` of them a
  /// quarantine begins.
  void blame(Time now, PeerId peer, Reason reason, Effects& out);
  /// True if we currently exchange nothing with the peer because of its unsound models.
  bool is_quarantined(Time now, PeerId peer) const;
  /// The median over recent partners of the largest Euclidean distance between the two models of an
  /// exchange with that partner, before the forces; the largest distance if there are fewer than
  /// three partners; 0 before the first exchange. Each partner's last distance would not do,
  /// because an exchange may directly follow another.
  double spread() const;

  bool in_flight() const;
  const Counts& counts() const;

  /// Number of entries kept about other peers and past exchanges. Forces that no snapshot contains
  /// yet are not counted.
  std::size_t held() const;
  /// The most that held() returns if this many other peers were ever met.
  static std::size_t held_max(std::size_t others);

 private:
  struct State;
  Boxed<State> state_;
};

}  // namespace gv
