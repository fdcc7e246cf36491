// The state of a peer's pair exchanges. Only the sources of the pair exchange include it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/comparison.hpp"
#include "base/own_copy.hpp"
#include "base/reuse.hpp"
#include "base/state_hash.hpp"
#include "consensus/gossip/pair_exchange.hpp"
#include "consensus/gossip/pair_memories.hpp"
#include "consensus/gossip/partner_times.hpp"
#include "consensus/transfer/reassembly.hpp"

namespace gv {

struct PairExchange::State {
  // Numbers of buffers kept for reuse: a current snapshot, one in an exchange, one being filled and
  // one being updated; a difference being received, one in use by a job and one waiting to be added
  // to a snapshot. More are needed only while we also send our model to a newcomer.
  static constexpr std::size_t snapshots_kept = 4;
  static constexpr std::size_t differences_kept = 3;

  enum class Stage { offered, receiving, awaiting_ready, awaiting_word };

  /// The received part of the difference between the partner's decoded model and our own. Elements
  /// of `values` from index `come` on are left over from earlier use and are not part of the state.
  struct Difference {
    OwnCopy<std::vector<float>> values;  ///< Null before the first block.
    std::size_t come = 0;

    std::span<const float> known() const {
      return values ? std::span<const float>(*values).first(come) : std::span<const float>();
    }
    friend bool operator==(const Difference& a, const Difference& b) {
      return equal_states(a.known(), b.known());
    }
    void add_to(StateHash& hash) const { hash.add(known()); }
  };

  /// The exchange under way.
  struct Flight {
    static constexpr std::size_t field_count = 25;

    TransferId id;
    PeerId partner{};
    bool initiator = false;
    Stage stage = Stage::offered;
    SnapshotPtr snapshot;   ///< Our snapshot at the time of the offer.
    Payload payload;        ///< Our snapshot, encoded.
    float alpha = 0;        ///< Our coefficient; once agreed, the smaller of the two.
    float clip_radius = 0;  ///< Our clip radius; once agreed, the smaller of the two.
    ConservationChecksum partner_checksum{};
    std::uint64_t partner_step = 0;
    Reassembly blocks;  ///< Blocks of the partner's snapshot, which is consumed as a stream.
    Difference difference;
    Comparison comparison;        ///< Compares the received part of the partner's model with ours.
    std::vector<std::byte> code;  ///< The encoded model of the partner. Used only if codes need a
                                  ///< memory.
    std::optional<std::uint64_t> their_key;  ///< The key in the partner's code, once its first
                                             ///< block has arrived.
    std::vector<float> middle;  ///< The mean of both models as both peers decode them. Empty until
                                ///< both codes have arrived.
    bool accepted = false;
    bool ready = false;  ///< As initiator: true if the responder has sent Ready.
    /// The offset at which the partner last asked us to resume.
    std::optional<std::uint64_t> asked;
    int resumes = 0;
    int queries = 0;
    Time began{};
    Time asked_at{};  ///< When we last asked for missing blocks or, if we have not, when the offer
                      ///< was accepted.
    Time give_up_at = never;  ///< When we give up an exchange whose model is still arriving.
    Time deadline = never;
  };

  /// The present snapshot, encoded for `partner`, or for any partner if `key` is 0.
  struct Encoding {
    Payload payload;  ///< Without owner if nothing has been encoded.
    PeerId partner{};
    std::uint64_t key = 0;  ///< The key of the partner's memory.
  };

  /// The last exchange that we accepted from an initiator.
  struct Settled {
    std::uint64_t session = 0;
    std::uint64_t number = 0;
  };

  struct Conduct {
    int offences = 0;
    Time quarantined_until{};
  };

  static constexpr std::size_t field_count = 21;

  PeerId self{};
  TransferNumbers numbers;
  Options options;
  Counts counts;
  SnapshotPtr snapshot;
  /// Kept for the next exchange, so that a partner that begins and aborts exchanges does not make
  /// us encode the model each time.
  Encoding encoding;
  std::vector<Force> since;  ///< Committed forces that the snapshot does not contain yet.
  float alpha = 0;
  bool stops = false;                 ///< True if the run is ending.
  std::vector<Force> forces;          ///< Committed forces that take_forces() has not returned yet.
  std::optional<PeerId> turned_away;  ///< The first peer refused as busy since take_turned_away()
                                      ///< was last called.
  std::optional<Flight> flight;
  std::map<PeerId, TransferId> committed;  ///< For each partner, the last exchange that we have
                                           ///< committed as initiator.
  std::map<PeerId, Settled> settled;
  std::map<PeerId, Conduct> conduct;
  std::map<PeerId, Duration> patience;  ///< How long an offer to each partner may stay unanswered
                                        ///< before we withdraw it.
  PartnerTimes times;
  PairMemories memories;                            ///< Empty if codes need no memory.
  std::deque<std::pair<PeerId, double>> distances;  ///< Recent distances, each with its partner.
  Reuse<Snapshot> snapshots{snapshots_kept};
  Reuse<std::vector<float>> differences{differences_kept};

  /// True if a model is sent as a code of its difference from the pair's memory, not value by
  /// value.
  bool needs_memory() const { return bytes_per_element(options.codec) == 0; }
  /// The most bytes that a model may take. A code is longer than the plain values if there are few
  /// values, or if it keeps most of them.
  std::uint64_t payload_bytes() const {
    if (!needs_memory()) return options.elements * bytes_per_element(options.codec);
    return std::max(PairMemories::code_bytes(options.codec, 0, options.elements),
                    PairMemories::code_bytes(options.codec, 1, options.elements));
  }
  bool is_quarantined(Time now, PeerId peer) const;
  std::optional<double> median_of_partners(bool widest) const;
  double spread() const;
  float radius() const;
  void note_distance(PeerId partner, double distance);
  void freshen_snapshot();
  std::shared_ptr<std::vector<float>> blank_difference();
  Payload encoded(PeerId partner, const TransferId& id);
  Flight& take_off(Time now, TransferId id, PeerId partner, bool initiator);
  Flight* matching(PeerId from, const TransferId& id);
  void withdraw_unanswered(Time now, Effects& out);
  Duration& patience_with(PeerId partner);
  void note_answer(Time now);
  Reason judge(Time now, PeerId from, const Offer& offer) const;
  void settle(const TransferId& id);
  void tell_outcome(PeerId to, const TransferId& id, Effects& out) const;
  void stream(Effects& out, std::uint64_t offset);
  void refuse(PeerId to, TransferId id, Reason reason, Effects& out);
  void end(Effects& out) {
    out.cancels.push_back({flight->partner, flight->id});
    flight.reset();
  }
  void abort(Reason reason, bool tell, Effects& out);
  void drop_undecided(Reason reason, Effects& out);
  void give_up(Reason reason, bool tell, Effects& out);
  Duration until_query(Duration usual) const;
  void ask_for_word(Time now, Effects& out);
  bool begin_code(Time now, const Block& block, Effects& out);
  void take_values(const Block& block, std::uint64_t begin);
  bool decode_models(Time now, Effects& out);
  void whole(Time now, Effects& out);
  void offend(Time now, Reason reason, Effects& out);
  void blame(Time now, PeerId peer, Reason reason, Effects& out);
  void commit(Time now, Effects& out);
  void resume(Time now, Reason otherwise, Effects& out);

  void on(Time now, PeerId from, const Offer& offer, Effects& out);
  void on(Time now, PeerId from, const Accept& accept, Effects& out);
  void on(Time now, PeerId from, const Refuse& refuse, Effects& out);
  void on(Time now, PeerId from, const Ready& ready, Effects& out);
  void on(Time now, PeerId from, const Commit& commit, Effects& out);
  void on(Time now, PeerId from, const Query& query, Effects& out);
  void on(Time now, PeerId from, const Abort& abort, Effects& out);
  void on(Time now, PeerId from, const Resume& resume, Effects& out);
  void tick(Time now, Effects& out);
};

}  // namespace gv
