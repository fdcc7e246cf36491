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

/// One peer's side of every pair exchange. A peer is in at most one exchange at a time, as
/// initiator or as responder, so no waiting cycle can form. Both sides compute
///   d = alpha * c * (dec(s_other) - dec(s_self))
/// from the decoded values of both snapshots, with the same clip factor c. So one side gains
/// exactly what the other gives.
///
///   initiator: offered -> receiving -> (complete model and Ready arrived) commit, send Commit
///   responder: receiving -> (complete, sound model arrived) send Ready, await Commit -> commit
///
/// The initiator decides. If Commit is missing, the responder asks for it. The responder drops the
/// exchange when the initiator is gone or never answers, or when the run ends. Such an exchange
/// counts as undecided, and this is the only way in which only half an exchange can be applied.
/// Cost: one encoded model in each direction at the same time, four small messages, and memory for
/// one vector of floats and, with a lossy codec, for one encoded model.
class PairExchange {
 public:
  /// Number of recent distances that set the adaptive radius.
  static constexpr std::size_t distances_max = 15;

  struct Options {
    std::uint64_t layout_hash = 0;
    std::uint64_t elements = 0;
    /// One of exchange_codecs. A codec without a fixed width needs a memory (see PairMemories).
    Codec codec;
    float clip_radius = 0;  ///< Fixed clip radius; if it is 0, `clip_factor` sets the radius.
    /// The clip radius as a multiple of the median of recent distances; 0 means no clipping. If
    /// there are three or more partners, each counts once in the median.
    float clip_factor = 10;
    float norm_cap = 10;  ///< A model is refused if its norm is above this many times the larger of
                          ///< our norm and 1; 0 means never.
    /// Longest time from Offer to Accept or Refuse. An unanswered offer gives way to another
    /// exchange sooner: after twice the time of the partner's last answer, or for a new partner
    /// after an eighth of this time.
    Duration answer_deadline = std::chrono::seconds(2);
    /// Longest time between two blocks, and from the last block to Commit. After that the responder
    /// asks for Commit, and waits up to `answer_deadline` for each answer. An exchange that takes
    /// far longer than usual is given up although blocks arrive (see PartnerTimes::give_up_at).
    Duration progress_deadline = std::chrono::seconds(5);
    std::size_t block_least = block_bytes_usual;  ///< The smallest size of a block, except for the
                                                  ///< last of a transfer.
    Duration quarantine = std::chrono::minutes(5);
    int offences_max = 3;  ///< Number of invalid models at which their sender is quarantined.
  };

  /// Totals since the start. `initiated` is the number of exchanges that have ended with us as
  /// initiator, plus 1 if one is under way.
  struct Counts {
    std::uint64_t initiated = 0;
    std::uint64_t committed = 0;  ///< Exchanges committed, as initiator or responder.
    std::uint64_t refused = 0;    ///< Our offers that the partner refused.
    std::uint64_t refusals = 0;   ///< Offers of others that we refused.
    std::uint64_t aborted =
        0;  ///< Exchanges aborted, as initiator or responder, without effect on either side.
    std::uint64_t undecided = 0;  ///< Exchanges dropped as responder without Commit, so possibly
                                  ///< applied only by the initiator.
  };

  /// `session` has the same meaning as in exchange_id().
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
  /// before the snapshot is used again, so no difference counts twice. If the snapshot is null,
  /// every offer is refused as not ready. The memory for exchanges is then freed, because a final
  /// mean or a download needs as much memory.
  void set_snapshot(SnapshotPtr snapshot, float alpha, std::span<const Force> since = {});

  /// The present snapshot: the last one set, possibly with later forces added. May be null.
  const SnapshotPtr& snapshot() const;

  /// Memory for the next snapshot, with old contents. It is reused once nothing else holds it.
  std::shared_ptr<Snapshot> blank_snapshot();

  /// True if `partner` has used up its share of our time for now (see PartnerTimes).
  bool is_resting(Time now, PeerId partner) const;

  /// Offers the current snapshot to `partner`. Returns false and starts nothing if an exchange is
  /// under way, there is no snapshot, or the partner is quarantined or resting.
  bool start(Time now, PeerId partner, std::uint64_t round, Effects& out);

  /// Handles Offer, Accept, Refuse, Ready, Commit, Query, Abort and Resume; ignores other messages.
  void receive(Time now, PeerId from, const Message& message, Effects& out);
  void receive_block(Time now, PeerId from, const Block& block, Effects& out);

  /// Call when the bulk lane to `peer` has broken. Asks again for the missing blocks, or gives up
  /// the exchange.
  void lane_lost(Time now, PeerId peer, Effects& out);
  /// Call when no lane to `peer` can be opened. Gives up the exchange with it.
  void lane_refused(Time now, PeerId peer, Effects& out);
  /// Call when `peer` is dead or has left. Ends the exchange with it.
  void peer_gone(Time now, PeerId peer, Effects& out);
  /// Call when the run ends. As with a null snapshot, no further exchange begins. A responder that
  /// waits for Commit asks for it at once, and from then on eight times as often as before.
  void stop(Time now, Effects& out);
  /// Ends the exchange under way, if there is one. A responder that has sent Ready then does not
  /// learn whether the other side applies its half.
  void give_up(Effects& out);

  void tick(Time now, Effects& out);
  Time deadline() const;

  /// Returns the forces of exchanges committed since the last call, for the live model.
  std::vector<Force> take_forces();
  /// Returns the first peer whose offer we have refused since the last call because we were busy.
  std::optional<PeerId> take_turned_away();

  /// Counts an invalid model of `peer`, as if it came from an exchange. The peer is quarantined
  /// after `offences_max` such models.
  void blame(Time now, PeerId peer, Reason reason, Effects& out);
  /// True if we exchange nothing with the peer at present because it has sent too many invalid
  /// models.
  bool is_quarantined(Time now, PeerId peer) const;
  /// How far apart models usually are. For each recent partner we take the largest Euclidean
  /// distance between the two models of an exchange, before the forces. The result is the median of
  /// these distances, or the largest one if there are fewer than three partners; 0 before the first
  /// exchange. The last distance to each partner would be too small if one exchange directly
  /// followed another.
  double spread() const;

  bool in_flight() const;
  const Counts& counts() const;

  /// Number of entries kept about other peers and past exchanges. Excludes forces that no snapshot
  /// contains yet.
  std::size_t held() const;
  /// The largest possible held() after meeting this many other peers.
  static std::size_t held_max(std::size_t others);

 private:
  struct State;
  Boxed<State> state_;
};

}  // namespace gv
